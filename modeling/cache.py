"""Keys and values of the tokens so far, in tensors with room for more: a new token is added without a copy of all."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer
from transformers.utils.import_utils import is_tracing


class RoomyLayer(DynamicLayer):
    """The library's layer concatenates at each token; here `keys` and `values` are the start of larger tensors."""

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        super().lazy_initialization(key_states, value_states)
        self._rooms: dict[str, Tensor] = {}  # (B, nh, more than S, hd)

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        if torch.is_grad_enabled() or is_tracing(key_states):  # what was written in place cannot be differentiated
            return super().update(key_states, value_states, *args, **kwargs)
        self.keys = self._append("keys", key_states)
        self.values = self._append("values", value_states)
        return self.keys, self.values

    def _append(self, name: str, new: Tensor) -> Tensor:
        held: Any = getattr(self, name)
        if not held.numel():
            held = new[..., :0, :]
        start, stop = held.shape[-2], held.shape[-2] + new.shape[-2]
        room = self._rooms.get(name)
        if room is None or not _continues(held, room, stop):
            room = new.new_empty((*new.shape[:-2], stop + max(64, stop // 2), new.shape[-1]))
            room[..., :start, :] = held
            self._rooms[name] = room
        room[..., start:stop, :] = new
        return room[..., :stop, :]

    def reset(self) -> None:
        super().reset()
        self._rooms = {}


def _continues(held: Tensor, room: Tensor, stop: int) -> bool:
    """Whether this is still the start of that tensor, which has space up to `stop` and may be written to here.

    The library reorders, repeats and crops what a layer holds. Outside of inference mode a tensor that was made in it
    cannot be written to.
    """
    same = held.data_ptr() == room.data_ptr() and held.stride() == room.stride() and held.shape[:-2] == room.shape[:-2]
    return same and stop <= room.shape[-2] and (torch.is_inference_mode_enabled() or not room.is_inference())


def leave_room(cache: Cache) -> None:
    """Have an ordinary cache that is still empty grow into free space, whoever made it."""
    if not isinstance(cache, DynamicCache) or cache.get_seq_length():
        return
    if cache.layer_class_to_replicate is DynamicLayer:
        cache.layer_class_to_replicate = RoomyLayer
    for index, layer in enumerate(cache.layers):
        if type(layer) is DynamicLayer and not layer.is_initialized:
            cache.layers[index] = RoomyLayer()


__all__ = ["RoomyLayer", "leave_room"]
