"""How a grafted classifier learns: its losses, the learning rates of its layers, and the epoch that is kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from greffe.modeling.loss import linear_cross_entropy
from greffe.tokenization.output_folder import sync
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import TrainerCallback

from .arguments import FinetuneArguments
from .run_folder import BEST_WEIGHTS
from .stage_trainer import StageTrainer, current_epoch


class FinetuneTrainer(StageTrainer):
    """Adds class weights, the language-modelling loss, rates by layer, gradual unfreezing, and keeps the best epoch."""

    arguments: FinetuneArguments

    def __init__(self, *positional: Any, classifier: Any, class_weights: Tensor | None = None, **keywords: Any):
        super().__init__(*positional, **keywords)
        self.classifier = classifier  # the whole of it, where `model` is its head alone
        self.class_weights = class_weights
        self.add_callback(SaveAfterEvaluation())
        if self.arguments.gradual_unfreezing:
            self.add_callback(GradualUnfreezing(self.model))

    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        weight = self.arguments.lm_loss_weight if self.model.training else 0.0
        if self.class_weights is None and not weight:
            return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        outputs = model(**inputs, output_hidden_states=bool(weight), num_items_in_batch=num_items_in_batch)
        loss = outputs.loss
        # Of several labels a text the library counts each one.
        items = inputs["labels"].numel() if num_items_in_batch is None else num_items_in_batch
        if self.model.training and (self.class_weights is not None or self.arguments.label_smoothing_factor):
            loss = self._weighted_loss(self.class_weights, outputs.logits, inputs["labels"], items)
        if weight:
            share = inputs["labels"].numel() / items  # of what is accumulated into one step
            loss = loss + weight * share * self._language_loss(outputs.hidden_states[-1], inputs)
        if num_items_in_batch is not None and self.args.average_tokens_across_devices:
            loss = loss * self.accelerator.num_processes  # gradients are averaged over the processes
        return (loss, outputs) if return_outputs else loss

    def _weighted_loss(self, weights: Tensor | None, logits: Tensor, labels: Tensor, items: Any) -> Tensor:
        smoothing = self.arguments.label_smoothing_factor
        losses = F.cross_entropy(logits.float(), labels, reduction="none", label_smoothing=smoothing)
        if weights is not None:
            losses = losses * weights.to(losses.device)[labels]
        return losses.sum() / items

    def _language_loss(self, hidden_states: Tensor, inputs: dict[str, Tensor]) -> Tensor:
        """The mean over the next tokens of the batch's texts."""
        targets = inputs["input_ids"][:, 1:].masked_fill(inputs["attention_mask"][:, 1:] == 0, -100)
        head = self.accelerator.unwrap_model(self.model).lm_head
        return linear_cross_entropy(hidden_states[:, :-1].flatten(0, 1), head.weight, head.bias, targets.flatten())

    def create_optimizer(self, model: Any = None) -> Any:
        """Each layer's learning rate is that of the layer above it times the decay; the head has the whole."""
        decay = self.arguments.layerwise_lr_decay
        if decay == 1 or self.optimizer is not None:
            return super().create_optimizer(model)
        decayed = set(self.get_decay_parameter_names(self.model))
        groups: dict[tuple[int, bool], list[nn.Parameter]] = {}
        for name, parameter in self.model.named_parameters():
            if parameter.requires_grad or self.arguments.gradual_unfreezing:
                depth = depth_of(name, self.model.config.num_hidden_layers)
                groups.setdefault((depth, name in decayed), []).append(parameter)
        rate = self.args.learning_rate
        optimizer_class, options = self.get_optimizer_cls_and_kwargs(self.args, self.model)
        self.optimizer = optimizer_class(
            [
                {
                    "params": parameters,
                    "lr": rate * decay**depth,
                    "weight_decay": self.args.weight_decay if is_matrix else 0.0,
                }
                for (depth, is_matrix), parameters in sorted(groups.items(), key=lambda item: item[0])
            ],
            **options,
        )
        return self.optimizer

    def _determine_best_metric(self, metrics: dict[str, float], trial: Any) -> bool:
        """Keep the weights of the best evaluation so far, beside the checkpoints and written as safely."""
        is_best = super()._determine_best_metric(metrics, trial)
        if is_best:
            self.state.best_global_step = self.state.global_step  # which the library skips where nothing is saved
        if is_best and self.is_world_process_zero():
            best = Path(self.arguments.output) / BEST_WEIGHTS
            temporary = best.with_name(f".{best.name}.partial")
            weights = {name: value.contiguous() for name, value in self.model.state_dict().items()}
            save_file(weights, temporary, metadata={"metrics": json.dumps(metrics, default=str)})
            sync(temporary)
            temporary.replace(best)
        return is_best

    def load_best(self) -> None:
        """Go back to the best evaluation. Its file stays until the model is written: a run may be killed before."""
        best = Path(self.arguments.output) / BEST_WEIGHTS
        self.accelerator.wait_for_everyone()
        if best.exists():
            self.model.load_state_dict(load_file(best))
        self.accelerator.wait_for_everyone()

    def remove_best(self) -> None:
        (Path(self.arguments.output) / BEST_WEIGHTS).unlink(missing_ok=True)


def depth_of(name: str, layers: int) -> int:
    """How far below the head a parameter is: 0 for the head and the final norm, 1 for the last layer, and so on."""
    if name.startswith("model.embed_tokens"):
        return layers + 1
    if name.startswith("model.layers."):
        return layers - int(name.split(".")[2])
    return 0


class SaveAfterEvaluation(TrainerCallback):
    """Moves the checkpoint of the last step of an epoch, or of the run, behind the evaluation that follows it.

    A run that is killed between the two would otherwise go on with the next epoch, and never see how good this one was.
    """

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.epoch == int(state.epoch) or control.should_training_stop:
            control.should_save = False

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        control.should_save = args.save_strategy != "no"


class GradualUnfreezing(TrainerCallback):
    """The head alone in the first epoch, then one layer more from the top in each, then the embeddings too."""

    def __init__(self, model: Any):
        self.model = model

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        epoch = current_epoch(state)
        layers = self.model.config.num_hidden_layers
        for name, parameter in self.model.named_parameters():
            parameter.requires_grad_(depth_of(name, layers) <= epoch)


__all__ = ["FinetuneTrainer", "GradualUnfreezing", "depth_of"]
