"""The model wrapper: every form of output, device, dtype and layout; and nothing of the caller's is changed."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from roadworthy.errors import InputError, ModelError
from roadworthy.forward import Classifier, as_stats, device_of, module_of, target_classes, untouched
from roadworthy.scores import extract_logits

Draw = Callable[..., tuple[torch.Tensor, torch.Tensor]]
STATS = ((0.5, 0.4, 0.3), (0.2, 0.2, 0.2))


class Returning(nn.Module):
    """A model that hands its scores back in some other form."""

    def __init__(self, body: nn.Module, form: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.body, self.form = body, form

    def forward(self, images: torch.Tensor) -> Any:
        return self.form(self.body(images))


def conv_net(channels: int = 3, classes: int = 4) -> nn.Sequential:
    torch.manual_seed(11)
    return nn.Sequential(
        nn.Conv2d(channels, 6, 3),
        nn.BatchNorm2d(6),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(6, 4),
    )


class TestOutputForms:
    """Field report 1."""

    @pytest.mark.parametrize(
        ("form", "output"),
        [
            (lambda x: x, None),
            (lambda x: {"logits": x}, None),
            (lambda x: {"loss": None, "logits": x, "hidden": x.mean()}, None),
            (lambda x: SimpleNamespace(logits=x), None),
            (lambda x: x.numpy(), None),
            (lambda x: {"logits": x.double().numpy()}, None),
            (lambda x: (x, x + 1), 0),
            (lambda x: [x + 1, x], 1),
            (lambda x: (x + 1, x), -1),
            (lambda x: {"scores": x}, "scores"),
            (lambda x: {0: x}, 0),
            (lambda x: SimpleNamespace(scores=x), "scores"),
            (lambda x: (x, {"deep": x}), lambda returned: returned[1]["deep"]),
            (lambda x: x[:, :, None, None], lambda returned: returned.flatten(1)),
        ],
    )
    def test_every_form_gives_the_bare_models_numbers(
        self, q4: nn.Module, q4_data: Draw, form: Callable[..., Any], output: Any
    ) -> None:
        images, _ = q4_data()
        logits = Classifier(Returning(q4, form), output=output).logits(images)
        assert torch.equal(logits, q4(images))

    def test_an_ordered_mapping_with_attributes(self, q4: nn.Module, q4_data: Draw) -> None:
        class ModelOutput(dict[str, Any]):
            def __getattr__(self, name: str) -> Any:
                return self[name]

            def __getitem__(self, key: Any) -> Any:
                return list(self.values())[key] if isinstance(key, int) else super().__getitem__(key)

        images, _ = q4_data()
        model = Returning(q4, lambda x: ModelOutput(logits=x, hidden=x + 1))
        assert torch.equal(Classifier(model).logits(images), q4(images))
        assert torch.equal(Classifier(model, output=1).logits(images), q4(images) + 1)

    @pytest.mark.parametrize(
        ("returned", "output", "message"),
        [
            ((torch.zeros(2, 3), torch.zeros(2)), None, r"a tuple of 2: a tensor \(2, 3\), a tensor \(2,\).*output="),
            ({"scores": torch.zeros(2, 3)}, None, r"a dict with keys \['scores'\].*'logits'"),
            (SimpleNamespace(scores=1), None, "type SimpleNamespace.*output="),
            (None, None, "type NoneType"),
            ({"scores": torch.zeros(2, 3)}, "score", r"output='score' finds nothing.*\['scores'\]"),
            ((torch.zeros(2, 3),), 4, "output=4 finds nothing.*a tuple of 1"),
            (SimpleNamespace(scores=1), "logit", "output='logit' finds nothing"),
            (torch.zeros(2, 3), "logits", r"output='logits' finds nothing.*a tensor \(2, 3\)"),
            ({"scores": "text"}, "scores", "output='scores' picks an object of type str"),
            ((1, 2), lambda returned: returned["x"], "finds nothing.*a tuple of 2"),
            (torch.zeros(2, 3, 4, 4), None, r"shape \(2, 3, 4, 4\)"),
            (torch.zeros(2, 1), None, r"shape \(2, 1\).*at least two"),
            (torch.zeros(3), None, r"shape \(3,\)"),
        ],
    )
    def test_anything_else_is_named(self, returned: Any, output: Any, message: str) -> None:
        with pytest.raises(ModelError, match=message):
            extract_logits(returned, output)

    def test_rows_must_be_the_images(self, q4: nn.Module, q4_data: Draw) -> None:
        with pytest.raises(ModelError, match="7 rows of scores for 8 images"):
            Classifier(Returning(q4, lambda x: x[1:])).logits(q4_data()[0])

    def test_arrays_with_negative_strides(self) -> None:
        array = np.arange(12, dtype=np.float64).reshape(3, 4)[::-1]
        assert torch.equal(extract_logits(array), torch.from_numpy(array.copy()))

    def test_a_callable_that_works_in_numpy(self, q4: nn.Module, q4_data: Draw) -> None:
        images, _ = q4_data()
        assert torch.equal(Classifier(lambda x: q4(x).numpy()).logits(images), q4(images))


class TestUntouched:
    """Field report 8 and what a forward pass may leave behind."""

    def test_nested_train_flags_are_off_inside_and_back_after(self, q4: nn.Module, q4_data: Draw) -> None:
        model = nn.Sequential(nn.Dropout(0.5), q4)
        model.eval()
        model[0].train()
        images, _ = q4_data()
        with untouched(model):
            assert not any(part.training for part in model.modules())
            first = Classifier(model).logits(images)
            again = Classifier(model).logits(images)
        assert torch.equal(first, q4(images))
        assert torch.equal(first, again)
        assert [part.training for part in model.modules()] == [False, True, False]

    def test_restored_after_an_error(self) -> None:
        model = conv_net().train()
        model[1].eval()
        with pytest.raises(KeyError), untouched(model):
            raise KeyError("stop")
        assert [part.training for part in model] == [True, False, True, True, True, True]
        assert model.training

    def test_gradients_buffers_and_requires_grad(self, q4_data: Draw) -> None:
        model, (images, _) = conv_net(), q4_data()
        model[0].weight.grad = torch.ones_like(model[0].weight)
        model[5].bias.requires_grad_(False)
        grad, buffer = model[0].weight.grad, model[1].running_mean
        before = {name: value.clone() for name, value in model.state_dict().items()}
        with untouched(model):
            model.train()(images).sum().backward()
            model[5].weight.requires_grad_(False)
            model[5].bias.requires_grad_(True)
            model[1].running_mean = torch.full((6,), 7.0)  # another tensor in its place, not only other values
        assert model[0].weight.grad is grad
        assert bool((grad == 1).all())
        assert all(p.grad is None for p in model.parameters() if p is not model[0].weight)
        assert (model[5].weight.requires_grad, model[5].bias.requires_grad) == (True, False)
        assert model[1].running_mean is buffer
        assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())

    def test_batchnorm_statistics_and_hooks_stay_in_train_mode(self, q4_data: Draw) -> None:
        model = conv_net().train()
        seen: list[int] = []
        model[0].register_forward_hook(lambda *_: seen.append(1))
        before = model[1].running_mean.clone()
        with untouched(model):
            Classifier(model).logits(q4_data()[0])
        assert torch.equal(model[1].running_mean, before)
        assert int(model[1].num_batches_tracked) == 0
        assert (len(seen), len(model[0]._forward_hooks), len(model[0]._backward_hooks)) == (1, 1, 0)

    def test_a_buffer_of_nan_and_an_empty_buffer(self) -> None:
        model = nn.Linear(2, 2)
        model.register_buffer("gap", torch.tensor([float("nan"), 1.0]))
        model.register_buffer("empty", None)
        with untouched(model):
            model.gap[1] = 5
        assert model.gap[1] == 1
        assert model.empty is None

    @pytest.mark.parametrize("wrap", [lambda m: m.forward, lambda m: functools.partial(m.forward)])
    def test_bound_methods_and_partials_reach_their_module(self, wrap: Callable[..., Any], q4_data: Draw) -> None:
        model = conv_net().train()
        bound = wrap(model)
        assert module_of(bound) is model
        with untouched(bound):
            assert not model[1].training
            Classifier(bound).logits(q4_data()[0])
        assert model[1].training
        assert int(model[1].num_batches_tracked) == 0

    def test_a_plain_callable_has_no_module(self) -> None:
        assert module_of(len) is None
        with untouched(lambda x: x):
            pass

    def test_inputs_and_global_rng(self, q4_data: Draw) -> None:
        model, (images, _) = nn.Sequential(nn.Dropout(0.5), conv_net()).train(), q4_data()
        kept, state, numpy_state = images.clone(), torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
        with untouched(model):
            Classifier(model, normalize=STATS).logits(images)
        assert torch.equal(images, kept)
        assert torch.equal(torch.get_rng_state(), state)
        assert (np.random.get_state()[1] == numpy_state).all()  # noqa: NPY002


class TestClassifier:
    def test_normalisation_against_the_formula(self, q4: nn.Module, q4_data: Draw) -> None:
        images, _ = q4_data()
        mean, std = (torch.tensor(part).view(1, 3, 1, 1) for part in STATS)
        expected = q4((images - mean) / std)
        assert torch.equal(Classifier(q4, normalize=STATS).logits(images), expected)

    def test_gradients_pass_through_normalisation(self, q4_data: Draw) -> None:
        # d logit / d pixel of Q4 is 20 / (pixels x channels of the quadrant), divided by the std of the channel
        images, _ = q4_data(n=2)
        images.requires_grad_(True)
        body = nn.Sequential(nn.AvgPool2d(8), nn.Flatten(), nn.Linear(12, 4))
        stats = ((0.0, 0.0, 0.0), (0.5, 0.25, 0.2))
        Classifier(body, normalize=stats, layout="NCHW").forward(images)[:, 0].sum().backward()
        raw = images.detach().clone().requires_grad_(True)
        body(raw)[:, 0].sum().backward()
        assert images.grad is not None
        assert raw.grad is not None
        assert torch.allclose(images.grad, raw.grad / torch.tensor(stats[1]).view(1, 3, 1, 1), rtol=1e-6)

    @pytest.mark.parametrize("max_batch", [1, 3, 8, 256])
    def test_batch_size_changes_nothing(self, q4: nn.Module, q4_data: Draw, max_batch: int) -> None:
        sizes: list[int] = []

        def model(images: torch.Tensor) -> torch.Tensor:
            sizes.append(len(images))
            return q4(images)

        images, _ = q4_data()
        assert torch.equal(Classifier(model, max_batch=max_batch).logits(images), q4(images))
        assert max(sizes) == min(max_batch, 8)
        assert sum(sizes) == 8

    @pytest.mark.parametrize(
        ("dtype", "tolerance"), [(torch.float64, 1e-6), (torch.bfloat16, 3e-2), (torch.float16, 3e-3)]
    )
    def test_models_of_other_dtypes(self, q4_data: Draw, dtype: torch.dtype, tolerance: float) -> None:
        images, _ = q4_data()
        model = conv_net().eval()
        expected = Classifier(model, normalize=STATS).logits(images)
        classifier = Classifier(model.to(dtype), normalize=STATS)
        assert classifier.dtype == dtype
        logits = classifier.logits(images)
        assert logits.dtype == torch.float32
        assert torch.allclose(logits, expected, atol=tolerance)

    def test_the_dtype_of_a_model_that_only_has_buffers(self) -> None:
        model = nn.Module()
        model.register_buffer("count", torch.tensor(1))
        model.register_buffer("scale", torch.ones(1, dtype=torch.float64))
        model.forward = lambda images: images.mean(dim=(2, 3)) * model.scale  # type: ignore[method-assign]
        assert Classifier(model).dtype == torch.float64
        assert Classifier(model).logits(torch.ones(2, 3, 4, 4)).tolist() == [[1.0] * 3] * 2

    def test_channels_last_models_get_a_contiguous_batch(self, q4: nn.Module, q4_data: Draw) -> None:
        shapes: list[tuple[torch.Size, bool]] = []

        def model(images: torch.Tensor) -> torch.Tensor:
            shapes.append((images.shape, images.is_contiguous()))
            return q4(images.permute(0, 3, 1, 2))

        images, _ = q4_data(height=16, width=24)
        assert torch.allclose(Classifier(model, layout="NHWC").logits(images), q4(images), rtol=1e-6)
        assert shapes == [(torch.Size([8, 16, 24, 3]), True)]

    def test_series_tables_and_tokens(self) -> None:
        torch.manual_seed(0)
        series, table, tokens = torch.rand(5, 2, 30), torch.rand(5, 4), torch.randint(0, 9, (5, 7))
        on_series = nn.Sequential(nn.Flatten(), nn.Linear(60, 3))
        assert torch.equal(Classifier(on_series).logits(series), on_series(series).detach())
        on_table = nn.Linear(4, 3)
        stats = ([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 1.0, 2.0])
        expected = on_table((table - torch.tensor(stats[0])) / torch.tensor(stats[1])).detach()
        assert torch.equal(Classifier(on_table, normalize=stats).logits(table), expected)
        on_tokens = nn.Sequential(nn.Embedding(9, 6), nn.Flatten(), nn.Linear(42, 3))
        logits = Classifier(on_tokens, normalize=([0.5], [0.5])).logits(tokens)
        assert torch.equal(logits, on_tokens(tokens).detach())

    def test_batches_follow_the_model_to_its_device(self) -> None:
        """Field report 31, with the meta device in place of an accelerator."""
        model = conv_net()
        classifier = Classifier(model, normalize=STATS)
        assert classifier.device.type == "cpu"
        model.to("meta")
        assert classifier.device.type == "meta"
        with untouched(model):
            logits = classifier.forward(torch.rand(2, 3, 8, 8))
        assert (logits.device.type, tuple(logits.shape)) == ("meta", (2, 4))

    def test_a_callable_runs_where_it_is_told(self) -> None:
        devices = []

        def model(images: torch.Tensor) -> torch.Tensor:
            devices.append(images.device.type)
            return images.mean(dim=(2, 3))

        Classifier(model, device="meta").forward(torch.rand(2, 3, 8, 8))
        assert devices == ["meta"]

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"device": "cuda"}, "device='cuda', but the model is on 'cpu'.*model.to"),
            ({"device": "gpu7"}, "device: got 'gpu7'"),
            ({"layout": "HWC"}, "layout: got 'HWC'.*'NCHW' or 'NHWC'"),
            ({"max_batch": 0}, "max_batch: got 0"),
            ({"max_batch": 2.5}, "max_batch: got 2.5"),
        ],
    )
    def test_wrong_settings(self, settings: dict[str, Any], message: str) -> None:
        with pytest.raises(InputError, match=message):
            Classifier(conv_net(), **settings)

    def test_not_a_model(self) -> None:
        with pytest.raises(ModelError, match="got str, expected a torch.nn.Module or a callable"):
            Classifier("resnet50")  # type: ignore[arg-type]
        with pytest.raises(ModelError, match="of a file of weights, .*weights='mine.pt'"):
            Classifier("mine.pt")  # type: ignore[arg-type]

    def test_no_images(self, q4: nn.Module) -> None:
        with pytest.raises(InputError, match="no images"):
            Classifier(q4).logits(torch.zeros(0, 3, 4, 4))

    def test_a_failing_model_is_shown_with_its_batch(self) -> None:
        model = conv_net(channels=3)
        with pytest.raises(
            ModelError, match=r"batch \(2, 1, 8, 8\) \(NCHW, torch.float32, cpu\).*3 channels"
        ) as info:
            Classifier(model).logits(torch.zeros(2, 1, 8, 8))
        assert isinstance(info.value.__cause__, RuntimeError)

    def test_out_of_memory_names_max_batch(self) -> None:
        def model(_: torch.Tensor) -> torch.Tensor:
            raise torch.OutOfMemoryError("CUDA out of memory")

        with pytest.raises(ModelError, match=r"batch \(2, 1, 4, 4\); pass a smaller max_batch \(it is 64\)"):
            Classifier(model, max_batch=64).logits(torch.zeros(2, 1, 4, 4))

    def test_works_where_gradients_are_off(self, q4: nn.Module, q4_data: Draw) -> None:
        """Field report 24: the same numbers inside no_grad and inference_mode, and no graph is kept outside."""
        images, _ = q4_data()
        outside = Classifier(q4).logits(images)
        with torch.no_grad():
            assert torch.equal(Classifier(q4).logits(images), outside)
        with torch.inference_mode():
            assert torch.equal(Classifier(q4).logits(images), outside)
        assert not Classifier(conv_net()).logits(images).requires_grad


def test_device_of_prefers_the_module() -> None:
    assert device_of(conv_net(), "cpu").type == "cpu"
    assert device_of(conv_net().to("meta"), torch.device("meta")).type == "meta"
    assert device_of(len).type == "cpu"
    assert device_of(len, "meta").type == "meta"
    assert device_of(nn.ReLU(), "meta").type == "meta"


@pytest.mark.parametrize(
    ("normalize", "message"),
    [
        (0.5, "got 0.5, expected a pair"),
        ((0.5,), "expected a pair"),
        (([0.5], [0.5], [0.5]), "expected a pair"),
        (("a", "b"), "expected a pair"),
        (([0.5, 0.5], [0.5]), "mean has 2 values, the images have 3 channels"),
        (([0.5], [0.5, 0.0, 0.5]), "std is .*expected positive"),
        (([0.5], [float("nan")]), "expected positive"),
        (([float("inf")], [0.5]), "mean is .*expected finite"),
    ],
)
def test_wrong_statistics(normalize: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        as_stats(normalize, 3)


class TestTargets:
    predicted, labels = torch.tensor([1, 2, 3]), torch.tensor([0, 2, 1])

    @pytest.mark.parametrize(
        "target",
        [
            [3, 0, 1],
            (3, 0, 1),
            np.array([3, 0, 1], dtype=np.int32),
            np.array([[3], [0], [1]]),
            torch.tensor([3, 0, 1], dtype=torch.int16),
            torch.tensor([3.0, 0.0, 1.0]),
        ],
    )
    def test_one_class_per_sample_in_any_form(self, target: Any) -> None:
        """Field report 31."""
        found = target_classes(target, predicted=self.predicted, labels=None)
        assert found.dtype == torch.int64
        assert found.tolist() == [3, 0, 1]

    def test_words(self) -> None:
        assert target_classes("predicted", predicted=self.predicted, labels=None) is self.predicted
        assert target_classes("label", predicted=self.predicted, labels=self.labels).tolist() == [0, 2, 1]

    @pytest.mark.parametrize(
        ("target", "labels", "message"),
        [
            ("labels", None, "got 'labels', expected 'predicted'"),
            ("label", None, "needs labels"),
            ("label", torch.tensor([0, 1]), "2 classes for 3 samples"),
            ([0, 1], None, "2 classes for 3 samples"),
            ([0.5, 1, 2], None, "whole numbers"),
            ([-1, 1, 2], None, "whole numbers from 0 up"),
            ([float("nan"), 1, 2], None, "whole numbers"),
            (None, None, "got None, expected"),
            ([[1], [2, 3]], None, "one class per sample"),
        ],
    )
    def test_wrong_targets(self, target: Any, labels: Any, message: str) -> None:
        with pytest.raises(InputError, match=message):
            target_classes(target, predicted=self.predicted, labels=labels)


def test_a_model_that_works_in_place_changes_nothing_of_the_callers() -> None:
    class InPlace(torch.nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return images.sub_(0.5).div_(0.5).flatten(1)

    images = torch.rand(3, 1, 2, 2)
    kept = images.clone()
    classifier = Classifier(InPlace())
    torch.testing.assert_close(classifier.logits(images), ((kept - 0.5) / 0.5).flatten(1))
    assert torch.equal(images, kept)
    leaf = images.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(classifier.forward(leaf).sum(), leaf)
    assert torch.equal(gradient, torch.full_like(images, 2.0))


def test_an_own_method_gets_a_model_that_takes_pixel_units() -> None:
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3, 2))
    images = torch.rand(4, 3, 1, 1)
    assert Classifier(net).as_model() is net
    classifier = Classifier(lambda x: {"scores": net(x)}, normalize=((0.5,), (0.25,)), output="scores")
    wrapped = classifier.as_model()
    assert isinstance(wrapped, torch.nn.Module)
    torch.testing.assert_close(wrapped(images), net((images - 0.5) / 0.25))


def test_two_threads_take_turns_with_one_model() -> None:
    import threading
    import time

    model = torch.nn.Dropout(0.5).train()
    seen: list[bool] = []

    def work(seconds: float) -> None:
        with untouched(model):
            for _ in range(5):
                time.sleep(seconds)
                seen.append(model.training)

    threads = [threading.Thread(target=work, args=(seconds,)) for seconds in (0.001, 0.01)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [False] * 10
    assert model.training


def test_memory_layout_changes_no_score_and_a_model_that_needs_one_gets_it() -> None:
    seen: list[bool] = []

    class Views(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 5, 3)
            self.last = torch.nn.Linear(5 * 16, 4)

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            seen.append(images.is_contiguous())
            return self.last(self.conv(images).view(len(images), -1))

    class Reshapes(Views):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            seen.append(images.is_contiguous())
            return self.last(self.conv(images).reshape(len(images), -1))

    images = torch.rand(7, 3, 6, 6)
    for kind, layouts in ((Views, [True, False, True, True]), (Reshapes, [True, False, False, False])):
        model = kind().eval()
        with torch.no_grad():
            wanted = model(images)
        seen.clear()
        torch.testing.assert_close(Classifier(model, max_batch=3).logits(images), wanted)
        assert seen == layouts


def test_a_model_that_reads_the_order_in_memory_is_asked_as_usual() -> None:
    class Strided(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 3, 1)
            self.last = torch.nn.Linear(3 * 16, 4)

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            flat = images.as_strided((len(images), 48), (48, 1))
            return self.last(flat)

    model, images = Strided().eval(), torch.rand(7, 3, 4, 4)
    with torch.no_grad():
        wanted = model(images)
    torch.testing.assert_close(Classifier(model, max_batch=3).logits(images), wanted)


def test_the_model_an_own_method_gets_shows_the_layers() -> None:
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3, 2))
    net.note = "mine"
    wrapped = Classifier(net, normalize=((0.5,), (0.25,))).as_model()
    assert wrapped.note == "mine"
    with pytest.raises(AttributeError):
        _ = wrapped.nothing


def test_an_error_of_the_model_is_still_told() -> None:
    class Broken(torch.nn.Conv2d):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            raise RuntimeError("on purpose")

    with pytest.raises(ModelError, match=r"failed on a batch \(2, 1, 4, 4\).*on purpose"):
        Classifier(Broken(1, 1, 1)).logits(torch.rand(2, 1, 4, 4))
