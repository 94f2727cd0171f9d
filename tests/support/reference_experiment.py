"""The reference experiment's model, written from its description on `torch.nn.TransformerEncoder`."""

import math

import torch
from torch import Tensor, nn


class Positions(nn.Module):
    def __init__(self, width: int, length: int = 5000):
        super().__init__()
        position = torch.arange(length).unsqueeze(1)
        exponent = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
        table = torch.zeros(length, 1, width)
        table[:, 0, 0::2] = torch.sin(position * exponent)
        table[:, 0, 1::2] = torch.cos(position * exponent)
        self.register_buffer("pe", table)

    def forward(self, x: Tensor) -> Tensor:  # (T, B, d), as in the experiment
        return x + self.pe[: x.shape[0]]


class Base(nn.Module):
    def __init__(self, vocabulary: int, width: int, heads: int, feed_forward: int, layers: int):
        super().__init__()
        self.encoder = nn.Embedding(vocabulary, width)
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        self.pos_encoder = Positions(width)
        layer = nn.TransformerEncoderLayer(width, heads, feed_forward, dropout=0.0)
        self.transformer_encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.width = width

    def forward(self, tokens: Tensor) -> Tensor:
        length = tokens.shape[0]
        mask = torch.triu(torch.full((length, length), float("-inf")), diagonal=1)
        embedded = self.encoder(tokens) * math.sqrt(self.width)
        return self.transformer_encoder(self.pos_encoder(embedded), mask=mask)


class Decoder(nn.Module):
    def __init__(self, width: int, outputs: int):
        super().__init__()
        self.decoder = nn.Linear(width, outputs)
        nn.init.uniform_(self.decoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.decoder(x)


class ReferenceModel(nn.Module):
    """Logits of every position, (T, B) -> (T, B, outputs)."""

    def __init__(
        self,
        outputs: int = 97,
        vocabulary: int = 97,
        width: int = 32,
        heads: int = 2,
        feed_forward: int = 32,
        layers: int = 2,
    ):
        super().__init__()
        self.base = Base(vocabulary, width, heads, feed_forward, layers)
        self.classifier = Decoder(width, outputs)
        # torch gives every layer of the stack the same draw and zero biases: make all weights tell.
        for parameter in self.parameters():
            if parameter.ndim == 1:
                nn.init.normal_(parameter, std=0.2)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.classifier(self.base(tokens))

    def logits(self, ids: Tensor) -> Tensor:
        """The same with the batch first: (B, T) -> (B, T, outputs)."""
        with torch.no_grad():
            return self.eval()(ids.t()).transpose(0, 1)
