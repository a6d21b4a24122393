"""Decoding: every pixel format against values known beforehand, and every kind of broken file."""

from __future__ import annotations

import contextlib
import io
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from roadworthy.data.decode import decode, fit, header_channels, to_tensor
from roadworthy.errors import DataError

RNG = np.random.default_rng(5)
GREY = RNG.integers(0, 256, (5, 7), dtype=np.uint8)
RGB = RNG.integers(0, 256, (5, 7, 3), dtype=np.uint8)


def encode(image: Image.Image | np.ndarray, form: str = "PNG", **options: Any) -> bytes:
    file = io.BytesIO()
    (Image.fromarray(image) if isinstance(image, np.ndarray) else image).save(file, form, **options)
    return file.getvalue()


def planes(values: np.ndarray) -> np.ndarray:
    """Return the expected tensor of 8-bit values (H, W) or (H, W, C)."""
    return (values[None] if values.ndim == 2 else values.transpose(2, 0, 1)).astype(np.float32) / np.float32(255)


def luma(values: np.ndarray) -> np.ndarray:
    return values[..., :3].astype(float) @ np.array([0.299, 0.587, 0.114]) / 255


@pytest.mark.parametrize("form", ["PNG", "BMP", "TIFF", "PPM"])
def test_grey_and_rgb_are_exact(form: str) -> None:
    for values in (GREY, RGB):
        image = decode(encode(values, form), "x")
        assert (image.dtype, image.is_contiguous()) == (torch.float32, True)
        np.testing.assert_array_equal(image.numpy(), planes(values))


def test_channels_are_brought_to_what_is_asked_for() -> None:
    np.testing.assert_array_equal(decode(encode(GREY), "x", channels=3).numpy(), np.repeat(planes(GREY), 3, axis=0))
    np.testing.assert_allclose(decode(encode(RGB), "x", channels=1).numpy()[0], luma(RGB), atol=1 / 255)
    for values in (GREY, RGB):
        four = decode(encode(values), "x", channels=4).numpy()
        assert four.shape == (4, 5, 7)
        assert (four[3] == 1).all()
        np.testing.assert_array_equal(four[:3], np.broadcast_to(planes(values), (3, 5, 7)))


def test_one_bit_images() -> None:
    bits = Image.fromarray(GREY > 127)
    assert bits.mode == "1"
    np.testing.assert_array_equal(decode(encode(bits), "x").numpy()[0], (GREY > 127).astype(np.float32))


def test_transparency_lies_on_white_unless_kept() -> None:
    alpha = RNG.integers(0, 256, (5, 7, 1), dtype=np.uint8)
    rgba = encode(np.concatenate([RGB, alpha], axis=2))
    share = planes(alpha)
    np.testing.assert_allclose(decode(rgba, "x").numpy(), planes(RGB) * share + 1 - share, atol=1.01 / 255)
    np.testing.assert_array_equal(decode(rgba, "x", channels=4).numpy(), np.concatenate([planes(RGB), share]))
    grey = decode(encode(Image.merge("LA", [Image.fromarray(GREY), Image.fromarray(alpha[..., 0])])), "x")
    np.testing.assert_allclose(grey.numpy(), planes(GREY) * share + 1 - share, atol=1.01 / 255)


def test_transparent_black_becomes_white() -> None:
    assert (decode(encode(np.zeros((3, 3, 4), dtype=np.uint8)), "x") == 1).all()


def test_palettes() -> None:
    palette = Image.fromarray((GREY % 4).astype(np.uint8)).convert("L")
    palette.putpalette([255, 0, 0, 0, 255, 0, 0, 0, 255, 10, 20, 30])
    assert palette.mode == "P"
    colours = np.array([[255, 0, 0], [0, 255, 0], [0, 0, 255], [10, 20, 30]], dtype=np.uint8)
    np.testing.assert_array_equal(decode(encode(palette), "x").numpy(), planes(colours[GREY % 4]))
    seen = decode(encode(palette, transparency=2), "x").numpy()
    colours[2] = 255
    np.testing.assert_array_equal(seen, planes(colours[GREY % 4]))


def test_a_transparent_colour_of_an_rgb_image() -> None:
    values = np.full((2, 2, 3), 7, dtype=np.uint8)
    values[0, 0] = (1, 2, 3)
    seen = decode(encode(values, transparency=(1, 2, 3)), "x").numpy()
    assert (seen[:, 0, 0] == 1).all()
    np.testing.assert_array_equal(seen[:, 1, 1], np.float32(7) / np.float32(255))


@pytest.mark.parametrize("form", ["PNG", "TIFF", "PPM"])
def test_16_bit_grey_keeps_its_depth(form: str) -> None:
    values = RNG.integers(0, 65536, (5, 7)).astype(np.uint16)
    values[0, :3] = (0, 1, 65535)
    data = encode(values, form)
    np.testing.assert_allclose(decode(data, "x").numpy()[0], values / 65535, rtol=1e-6)
    assert decode(data, "x", channels=3).shape == (3, 5, 7)
    four = decode(data, "x", channels=4)
    assert four.shape == (4, 5, 7)
    assert bool((four[3] == 1).all())


def test_float_and_32_bit_values_need_a_known_scale() -> None:
    values = RNG.random((4, 4)).astype(np.float32)
    np.testing.assert_array_equal(decode(encode(values, "TIFF"), "x").numpy()[0], values)
    with pytest.raises(DataError, match=r"x: float image with values from 0 to 2, expected \[0, 1\]"):
        decode(encode(np.array([[0, 2]], dtype=np.float32), "TIFF"), "x")
    with pytest.raises(DataError, match="x: float image"):
        decode(encode(np.array([[0, np.nan]], dtype=np.float32), "TIFF"), "x")
    with pytest.raises(DataError, match="x: integer image with values from -1 to 70000"):
        decode(encode(np.array([[-1, 70000]], dtype=np.int32), "TIFF"), "x")


def test_cmyk_becomes_rgb() -> None:
    data = encode(Image.fromarray(RGB).convert("CMYK"), "TIFF")
    np.testing.assert_allclose(decode(data, "x").numpy(), planes(RGB), atol=2 / 255)
    assert decode(encode(Image.new("CMYK", (9, 6), (0, 255, 255, 0)), "JPEG"), "x").shape == (3, 6, 9)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("form", ["PNG", "JPEG", "TIFF"])
def test_exif_orientation_is_applied(orientation: int, form: str) -> None:
    values = np.zeros((16, 24), dtype=np.uint8)
    values[:8, :8] = 255  # bright corner at the top left of the stored image
    exif = Image.Exif()
    exif[0x0112] = orientation
    seen = decode(encode(values, form, exif=exif), "x").numpy()[0]
    upright = {
        1: values,
        2: values[:, ::-1],
        3: values[::-1, ::-1],
        4: values[::-1],
        5: values.T,
        6: values.T[:, ::-1],
        7: values.T[::-1, ::-1],
        8: values.T[::-1],
    }[orientation]
    assert seen.shape == upright.shape
    assert np.abs(seen - upright / 255).max() < 0.1


@pytest.mark.filterwarnings("ignore:Corrupt EXIF")
def test_a_broken_exif_block_does_not_hide_the_picture() -> None:
    data = encode(GREY, "PNG", exif=b"Exif\x00\x00II*\x00\xff\xff\xff\xff nonsense")
    np.testing.assert_array_equal(decode(data, "x").numpy(), planes(GREY))


@pytest.mark.parametrize("form", ["GIF", "PNG", "WEBP", "TIFF"])
def test_animations_give_their_first_frame(form: str) -> None:
    first, second = Image.new("RGB", (6, 4), (255, 0, 0)), Image.new("RGB", (6, 4), (0, 0, 255))
    data = encode(
        first, form, save_all=True, append_images=[second], **({"lossless": True} if form == "WEBP" else {})
    )
    np.testing.assert_array_equal(decode(data, "x").numpy()[:, 0, 0], [1, 0, 0])


def test_size_scales_until_covered_and_crops_the_centre() -> None:
    values = np.zeros((40, 80), dtype=np.uint8)
    values[:, 20:60] = 255  # the centre square
    square = decode(encode(values), "x", size=(10, 10))
    assert (square[:, :, 1:-1] == 1).all()  # at the border, the filter sees a little of what is cropped
    torch.testing.assert_close(decode(encode(values.T.copy()), "x", size=(10, 10)), square.transpose(1, 2))
    wide = decode(encode(values), "x", size=(10, 20)).numpy()[0]
    assert wide.shape == (10, 20)
    assert (wide[:, :4] == 0).all()
    assert (wide[:, 6:14] == 1).all()


def test_shrinking_does_not_alias() -> None:
    stripes = np.zeros((64, 64), dtype=np.uint8)
    stripes[:, ::2] = 255
    for values in (stripes, (stripes.astype(np.uint16) * 257)):
        small = decode(encode(values), "x", size=(16, 16)).numpy()
        assert np.abs(small - 0.5).max() < 0.05


@pytest.mark.parametrize("shape", [(1, 1), (1, 500), (333, 1), (7, 13)])
@pytest.mark.parametrize("size", [(8, 8), (3, 11), (1, 1)])
def test_any_shape_comes_to_any_size(shape: tuple[int, int], size: tuple[int, int]) -> None:
    image = to_tensor(Image.fromarray(np.full(shape, 51, dtype=np.uint8)), size=size)
    assert image.shape == (1, *size)
    torch.testing.assert_close(image, torch.full_like(image, 0.2))


def test_an_image_of_the_right_size_is_not_touched() -> None:
    image = Image.fromarray(RGB)
    assert fit(image, (5, 7)) is image
    np.testing.assert_array_equal(decode(encode(RGB), "x", size=(5, 7)).numpy(), planes(RGB))


def png_header(width: int, height: int) -> bytes:
    """Return a PNG that announces these dimensions and holds next to nothing."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0")) + chunk(b"IEND", b"")


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize("side", [10_000, 60_000])
def test_a_header_that_announces_too_many_pixels_is_refused(side: int) -> None:
    with pytest.raises(DataError, match=rf"bomb\.png: .*{side * side}.* pixels.*limit of"):
        decode(png_header(side, side), "bomb.png")


PHOTO = encode(RNG.integers(0, 256, (64, 64, 3), dtype=np.uint8), "JPEG")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", r"is empty \(0 bytes\)"),
        (b"hello, this is text", "is not an image of a known format"),
        (PHOTO[: len(PHOTO) // 2], "cannot be decoded: OSError: image file is truncated"),
        (PHOTO[:15], "cannot be decoded|not an image"),
        (encode(RGB)[:60], "cannot be decoded"),
        (png_header(20, 20), "cannot be decoded"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "is not an image of a known format"),
    ],
)
def test_broken_files_are_named_with_the_cause(data: bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=rf"^some/where\.png: .*({message})"):
        decode(data, "some/where.png")
    path = tmp_path / "x.png"
    path.write_bytes(data)
    with pytest.raises(DataError, match=rf"^it: .*({message})"):
        decode(path, "it")


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="it: the file is gone"):
        decode(tmp_path / "no.png", "it")


@pytest.mark.filterwarnings("ignore:Corrupt EXIF", "ignore:Truncated File")
def test_every_cut_of_a_file_is_an_error_of_ours_or_an_image() -> None:
    for data in (PHOTO, encode(RGB), encode(RGB, "GIF"), encode(RGB, "TIFF"), encode(RGB, "BMP")):
        for end in range(0, len(data), max(1, len(data) // 60)):
            with contextlib.suppress(DataError):
                decode(data[:end], "x")


def test_headers_tell_grey_from_colour() -> None:
    alpha = Image.fromarray(GREY).convert("LA")
    deep = np.zeros((2, 2), dtype=np.uint16)
    assert [header_channels(encode(image)) for image in (GREY, alpha, deep)] == [1, 1, 1]
    palette = Image.fromarray(RGB).convert("P")
    assert [header_channels(encode(image)) for image in (RGB, palette, Image.fromarray(RGB).convert("RGBA"))] == [
        3
    ] * 3
    assert header_channels(b"text") is header_channels(b"") is None


def test_the_limits_of_pillow_are_left_as_they_are() -> None:
    limit = Image.MAX_IMAGE_PIXELS
    decode(encode(RGB), "x")
    assert limit == Image.MAX_IMAGE_PIXELS
