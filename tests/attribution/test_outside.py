"""What adapters for other libraries share: nothing is imported for them, and a model is left as it was."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from attribution_networks import plain, some_images
from torch import nn

from roadworthy.attribution.outside import Front, behind_normalization, is_part_of, undisturbed
from roadworthy.errors import AttributionError
from roadworthy.forward import Classifier
from roadworthy.model import Normalized


@pytest.mark.slow
def test_no_library_is_imported_to_recognise_an_object() -> None:
    code = (
        "import sys; from roadworthy.attribution import is_method, name_of; import roadworthy.model;"
        "assert is_method(len) and not is_method(3) and name_of(len) == 'len';"
        "print(*{'captum', 'zennit', 'quantus', 'transformers'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_attributes_hooks_and_weights_are_put_back() -> None:
    net = plain()
    net[0].rule = "mine"
    seen: list[int] = []
    net[1].register_forward_hook(lambda *_: seen.append(1))
    weight, kept = net[0].weight, net[0].weight.detach().clone()

    def disturb() -> None:
        del net[0].rule
        net[1].left = torch.zeros(2)
        net[1].register_forward_hook(lambda *_: None)
        net[0].weight.data = torch.zeros(5, 3, 3, 3)
        net[3].bias = None
        raise ValueError("halfway")

    with pytest.raises(ValueError, match="halfway"), undisturbed(net):
        disturb()
    assert net[0].rule == "mine"
    assert not hasattr(net[1], "left")
    assert len(net[1]._forward_hooks) == 1
    assert net[0].weight is weight
    assert torch.equal(weight, kept)
    assert isinstance(net[3].bias, nn.Parameter)
    net(some_images(1))
    assert seen == [1]


def test_what_a_module_counts_by_itself_goes_on() -> None:
    class Counting(nn.Module):
        calls = 0

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return images

    net = Counting()
    net(torch.zeros(1))
    with undisturbed(net):
        net(torch.zeros(1))
    assert net.calls == 2


def test_a_front_shows_the_same_scores_and_passes_relevance_on() -> None:
    net, images = plain(), some_images()
    normalize = ([0.4, 0.5, 0.6], [0.2, 0.25, 0.3])
    behind = Normalized(net, normalize)
    expected = behind(images)
    slopes = []
    for classifier in (Classifier(net, normalize=normalize), Classifier(behind)):
        for entry in (None, net):
            leaf = images.clone().requires_grad_()
            scores = Front(classifier, net, entry)(leaf)
            torch.testing.assert_close(scores, expected)
            slopes.append(torch.autograd.grad(scores[:, 0].sum(), leaf)[0])
    through, passed, through_inside, passed_inside = slopes
    std = torch.tensor(normalize[1]).view(1, 3, 1, 1)
    torch.testing.assert_close(passed, through * std, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(through_inside, through, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(passed_inside, passed, rtol=1e-5, atol=1e-6)
    assert not net._forward_pre_hooks


def test_relevance_cannot_enter_a_part_that_does_not_see_the_images() -> None:
    net = plain()
    with pytest.raises(
        AttributionError, match=r"its network is given \(4, 5, 4, 5\), not the images \(4, 3, 8, 10\)"
    ):
        Front(Classifier(net), net, net[3])(some_images())
    assert not net[3]._forward_pre_hooks


def test_parts_and_what_lies_behind_a_normalisation() -> None:
    net = plain()
    assert is_part_of(net, net)
    assert is_part_of(net, net[0])
    assert not is_part_of(net[0], net)
    assert not is_part_of(net, plain())
    assert behind_normalization(net) is net
    assert behind_normalization(Normalized(net, ([0.5] * 3, [0.5] * 3))) is net
