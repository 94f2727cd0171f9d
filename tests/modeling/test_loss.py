"""The chunked loss against torch's own on all logits, and the classification losses."""

import pytest
import torch
from greffe.modeling import GreffeForCausalLM, GreffeForMaskedLM, loss
from greffe.modeling.loss import classification_loss, linear_cross_entropy
from tiny_models import random_ids, tiny_config
from torch import Tensor
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

TOKENS, WIDTH, VOCABULARY = 50, 16, 101
DEFAULT_CHUNK = loss.CHUNK_BYTES


def test_default_chunk_is_small_but_not_too_small() -> None:
    assert DEFAULT_CHUNK <= 64 * 2**20  # bytes of logits at once
    assert DEFAULT_CHUNK // (4 * 50_001) >= 256  # tokens: fewer make the matrix products slow


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven tokens a chunk, three at a time, so that every test goes through several, the last ones incomplete."""
    monkeypatch.setattr(loss, "CHUNK_BYTES", 7 * VOCABULARY * 4)
    monkeypatch.setattr(loss, "CACHED_ELEMENTS", 3 * VOCABULARY)


def leaves() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    hidden = torch.randn(TOKENS, WIDTH, requires_grad=True)
    weight = torch.randn(VOCABULARY, WIDTH, requires_grad=True)
    bias = torch.randn(VOCABULARY, requires_grad=True)
    targets = torch.randint(VOCABULARY, (TOKENS,))
    targets[::3] = -100
    return hidden, weight, bias, targets


def loss_and_gradients(value: Tensor, inputs: tuple[Tensor, ...]) -> list[Tensor]:
    return [value.detach(), *torch.autograd.grad(value, inputs)]


@pytest.mark.parametrize("num_items_in_batch", [None, 90, torch.tensor(90)])
@pytest.mark.parametrize("compiling", [False, True])
def test_equals_cross_entropy_of_all_logits(
    num_items_in_batch: Tensor | int | None, compiling: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # When compiled, ignored rows are not dropped but weighed with zero: the same result by another way.
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: compiling)
    hidden, weight, bias, targets = leaves()
    logits = F.linear(hidden, weight, bias)
    if num_items_in_batch is None:
        plain = F.cross_entropy(logits, targets)
    else:
        plain = F.cross_entropy(logits, targets, reduction="sum") / num_items_in_batch
    ours = linear_cross_entropy(hidden, weight, bias, targets, num_items_in_batch)
    inputs = (hidden, weight, bias)
    for actual, expected in zip(
        loss_and_gradients(ours * 3, inputs), loss_and_gradients(plain * 3, inputs), strict=True
    ):
        torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("frozen", [0, 1, 2])
def test_gradients_without_one_of_the_inputs(frozen: int) -> None:
    hidden, weight, bias, targets = leaves()
    inputs = [hidden, weight, bias]
    inputs[frozen].requires_grad_(False)
    trained = tuple(tensor for tensor in inputs if tensor.requires_grad)
    plain = loss_and_gradients(F.cross_entropy(F.linear(*inputs), targets), trained)
    ours = loss_and_gradients(linear_cross_entropy(*inputs, targets), trained)
    for actual, expected in zip(ours, plain, strict=True):
        torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-5)


def test_without_bias_or_gradient() -> None:
    hidden, weight, _, targets = leaves()
    with torch.no_grad():
        actual = linear_cross_entropy(hidden, weight, None, targets)
    torch.testing.assert_close(actual, F.cross_entropy(F.linear(hidden, weight), targets).detach())


def test_large_logits_do_not_overflow() -> None:
    hidden, weight, bias, targets = leaves()
    actual = linear_cross_entropy(hidden * 1000, weight, bias, targets)
    torch.testing.assert_close(actual, F.cross_entropy(F.linear(hidden * 1000, weight, bias), targets))


def test_batch_without_targets_adds_nothing() -> None:
    hidden, weight, bias, targets = leaves()
    value = linear_cross_entropy(hidden, weight, bias, torch.full_like(targets, -100), num_items_in_batch=8)
    value.backward()
    assert value.item() == 0
    assert not weight.grad.any()


def test_second_backward_is_refused_not_wrong() -> None:
    hidden, weight, bias, targets = leaves()
    value = linear_cross_entropy(hidden, weight, bias, targets) * 2
    value.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="inplace operation"):
        value.backward()


def test_second_backward_of_the_loss_itself_adds_the_same() -> None:
    hidden, weight, bias, targets = leaves()
    value = linear_cross_entropy(hidden, weight, bias, targets)
    value.backward(retain_graph=True)
    once = [tensor.grad.clone() for tensor in (hidden, weight, bias)]
    value.backward()
    for tensor, gradient in zip((hidden, weight, bias), once, strict=True):
        torch.testing.assert_close(tensor.grad, 2 * gradient)


def test_bf16_autocast_does_not_round_the_loss() -> None:
    hidden, weight, bias, targets = leaves()
    exact = F.cross_entropy(F.linear(hidden, weight, bias), targets)
    exact_gradients = torch.autograd.grad(exact, (hidden, weight, bias))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = linear_cross_entropy(hidden, weight, bias, targets)
    assert value.dtype == torch.float32
    assert value != value.bfloat16()
    assert value != exact, "the matrices were not in bf16"
    assert value.item() == pytest.approx(exact.item(), rel=3e-3)
    for actual, expected in zip(torch.autograd.grad(value, (hidden, weight, bias)), exact_gradients, strict=True):
        assert actual.dtype == torch.float32
        assert F.cosine_similarity(actual.flatten(), expected.flatten(), dim=0) > 0.999


def test_model_in_bf16() -> None:
    hidden, weight, bias, targets = (
        tensor.detach().bfloat16() if tensor.is_floating_point() else tensor for tensor in leaves()
    )
    weight.requires_grad_()
    value = linear_cross_entropy(hidden, weight, bias, targets)
    value.backward()
    assert value.dtype == torch.float32
    assert weight.grad.dtype == torch.bfloat16


class LargestTensor(TorchDispatchMode):
    """Remembers the largest tensor that any operation made."""

    elements = 0

    def __torch_dispatch__(self, operation, types, arguments=(), keywords=None):
        result = operation(*arguments, **(keywords or {}))
        for tensor in result if isinstance(result, (tuple, list)) else [result]:
            if isinstance(tensor, Tensor):
                self.elements = max(self.elements, tensor.numel())
        return result


@pytest.mark.parametrize("model_class", [GreffeForCausalLM, GreffeForMaskedLM])
def test_training_never_holds_all_logits(model_class: type, kind: str) -> None:
    vocabulary = 50_001
    model = model_class(tiny_config(kind, vocab_size=vocabulary, hidden_size=8)).train()
    ids = random_ids(4, 32)
    with LargestTensor() as largest:
        model(ids, labels=ids).loss.backward()
    assert largest.elements == model.model.embed_tokens.weight.numel() == 8 * vocabulary
    assert largest.elements < ids.numel() * vocabulary


@pytest.mark.parametrize("model_class", [GreffeForCausalLM, GreffeForMaskedLM])
@pytest.mark.parametrize("num_items_in_batch", [None, 100])
def test_training_and_evaluation_have_the_same_loss(
    model_class: type, kind: str, num_items_in_batch: int | None
) -> None:
    model = model_class(tiny_config(kind))
    ids, labels = random_ids(3, 9), random_ids(3, 9)
    labels[:, :4] = -100
    training = model.train()(ids, labels=labels, num_items_in_batch=num_items_in_batch)
    evaluation = model.eval()(ids, labels=labels, num_items_in_batch=num_items_in_batch)
    assert training.logits is None
    assert evaluation.logits.shape == (3, 9, 97)
    torch.testing.assert_close(training.loss, evaluation.loss, atol=1e-5, rtol=0)


def test_causal_labels_are_shifted_once() -> None:
    model = GreffeForCausalLM(tiny_config()).eval()
    ids = random_ids(2, 8)
    with torch.no_grad():
        output = model(ids, labels=ids)
    by_hand = F.cross_entropy(output.logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
    torch.testing.assert_close(output.loss, by_hand)


def test_labels_that_are_shifted_already_are_not_shifted_again() -> None:
    model = GreffeForCausalLM(tiny_config()).train()
    ids = random_ids(2, 8)
    shifted = F.pad(ids[:, 1:], (0, 1), value=-100)
    torch.testing.assert_close(model(ids, labels=ids, shift_labels=shifted).loss, model(ids, labels=ids).loss)
    assert not torch.allclose(model(ids, labels=ids, shift_labels=ids).loss, model(ids, labels=ids).loss)


def test_masked_labels_are_not_shifted() -> None:
    model = GreffeForMaskedLM(tiny_config()).eval()
    ids = random_ids(2, 8)
    with torch.no_grad():
        output = model(ids, labels=ids)
    torch.testing.assert_close(output.loss, F.cross_entropy(output.logits.flatten(0, 1), ids.flatten()))


@pytest.mark.parametrize(
    ("problem_type", "labels", "expected"),
    [
        ("single_label_classification", torch.tensor([2, 0]), lambda x, y: F.cross_entropy(x, y)),
        ("multi_label_classification", torch.tensor([[1.0, 0, 1], [0, 0, 1]]), F.binary_cross_entropy_with_logits),
        ("regression", torch.tensor([[1.0, 2, 3], [4, 5, 6]]), F.mse_loss),
    ],
)
def test_classification_losses_are_torchs(problem_type: str, labels: Tensor, expected) -> None:
    logits = torch.randn(2, 3)
    torch.testing.assert_close(classification_loss(logits, labels, problem_type), expected(logits, labels))
    items = labels.numel()
    torch.testing.assert_close(
        classification_loss(logits, labels, problem_type, items * 2), expected(logits, labels) / 2
    )


def test_regression_with_one_output_takes_a_column_or_a_row() -> None:
    logits, labels = torch.randn(4, 1), torch.randn(4)
    expected = F.mse_loss(logits[:, 0], labels)
    torch.testing.assert_close(classification_loss(logits, labels, "regression"), expected)
    torch.testing.assert_close(classification_loss(logits, labels[:, None], "regression"), expected)


def test_unknown_problem_type_is_refused() -> None:
    with pytest.raises(ValueError, match="found 'ranking'"):
        classification_loss(torch.randn(2, 3), torch.tensor([0, 1]), "ranking")
