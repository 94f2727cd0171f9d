"""Colours that everybody can tell apart, as far as a simulation of colour-blindness tells."""

import itertools

import numpy as np
import pytest
from greffe.train.comparison.palette import COLOURS
from greffe.train.comparison.words import METHODS

# What is left of linear red, green and blue: Machado, Oliveira and Fernandes (2009), severity 1.
VISION = {
    "all cones": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
# Linear sRGB to CIE XYZ under D65, each divided by that of white.
TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
) / np.array([[0.95047], [1.0], [1.08883]])


def linear(colour: str) -> np.ndarray:
    shares = np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)]) / 255
    return np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)


def see(colour: str, vision: str) -> np.ndarray:
    """Where a colour is in CIE Lab, in which 2.3 is a difference that can just be noticed."""
    xyz = TO_XYZ @ np.clip(VISION[vision] @ linear(colour), 0, 1)
    x, y, z = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def luminance(colour: str) -> float:
    return float(np.array([0.2126, 0.7152, 0.0722]) @ linear(colour))


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("vision", VISION)
def test_any_two_methods_look_different(vision: str, theme: int) -> None:
    for first, second in itertools.combinations(METHODS, 2):
        places = [see(COLOURS[method][theme], vision) for method in (first, second)]
        assert np.linalg.norm(places[0] - places[1]) > 15, (first, second)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_methods_stand_out_from_the_paper(theme: int) -> None:
    """The ratio that WCAG asks for of what is not text."""
    for method in METHODS:
        bright, dark = sorted((luminance(COLOURS[role][theme]) for role in (method, "paper")), reverse=True)
        assert (bright + 0.05) / (dark + 0.05) > 3, method


def test_the_simulation_is_right() -> None:
    """White stays white, and the simulation mixes up what it is known for: red and green of one lightness."""
    for vision in VISION:
        assert see("#ffffff", vision) == pytest.approx([100, 0, 0], abs=0.2)
    apart = {vision: np.linalg.norm(see("#c14a4a", vision) - see("#6f7a1e", vision)) for vision in VISION}
    assert apart["all cones"] > 3 * apart["deuteranopia"]
