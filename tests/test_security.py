"""What SECURITY.md promises of files from others, where no other test shows it: no file runs code when it is read."""

from __future__ import annotations

import ast
import io
import json
import os
import pickle
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import roadworthy as rw
from roadworthy.attribution.saved import open_maps
from roadworthy.errors import InputError, RoadworthyError
from roadworthy.labelfree import Outputs, load_labelfree, read_outputs

ROOT = Path(__file__).resolve().parents[1]


class Trap:
    """Makes a folder when it is unpickled."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.place),)


@pytest.fixture
def sprung(tmp_path: Path):
    """Return the folder that a sprung trap makes; it must not be there in the end."""
    place = tmp_path / "sprung"
    yield place
    assert not place.exists(), "reading a file ran code in it"


def test_the_trap_works(tmp_path: Path) -> None:
    pickle.loads(pickle.dumps(Trap(tmp_path / "sprung")))
    assert (tmp_path / "sprung").exists()


def trapped_archive(path: Path, place: Path) -> None:
    """Put a pickled array in place of every array of an .npz archive, or make an archive of one."""
    with zipfile.ZipFile(path) as kept:
        names = kept.namelist()
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            held = io.BytesIO()
            np.lib.format.write_array(held, np.array([Trap(place)], dtype=object), allow_pickle=True)
            archive.writestr(name, held.getvalue())


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A saved result with pictures."""
    images = np.random.default_rng(0).random((24, 1, 6, 6)).astype(np.float32)
    labels = (images[:, 0, :, 3:].mean((1, 2)) > images[:, 0, :, :3].mean((1, 2))).astype(int)

    def model(x: Any) -> Any:
        return x[:, 0].reshape(len(x), 6, 2, 3).mean((1, 3)) * 9

    result = rw.evaluate(model, images, labels, ["random", "sobel"], fractions=(0.5,), imputer="zero", audit="off")
    return result.save(tmp_path / "run")


@pytest.mark.filterwarnings("ignore::roadworthy.errors.RoadworthyWarning")
def test_a_saved_result_runs_nothing(run: Path, sprung: Path) -> None:
    trapped_archive(run / "sheet.npz", sprung)
    with pytest.raises(RoadworthyError, match="sheet.npz"):
        rw.load_result(run)


@pytest.mark.parametrize("file", ["target.npz", "pictures.npz"])
def test_a_saved_labelfree_result_runs_nothing(file: str, tmp_path: Path, sprung: Path) -> None:
    p = np.random.default_rng(0).random(40)
    folder = rw.labelfree(data=Outputs.of(p)).save(tmp_path / "run")
    if file == "pictures.npz":
        np.savez(folder / file, ids=np.zeros(1), band=np.zeros(1), clean=np.zeros(1), perturbed=np.zeros(1))
    trapped_archive(folder / file, sprung)
    with pytest.raises(RoadworthyError, match="cannot be read"):
        load_labelfree(folder)


def test_saved_outputs_run_nothing(tmp_path: Path, sprung: Path) -> None:
    np.savez(tmp_path / "said.npz", probabilities=np.zeros((2, 2)))
    trapped_archive(tmp_path / "said.npz", sprung)
    with pytest.raises(RoadworthyError, match="without running code"):
        read_outputs(tmp_path / "said.npz")


@pytest.mark.parametrize("word", ["pickle", r"\u0070ickle"], ids=["plain", "escaped"])
@pytest.mark.parametrize(
    ("filters", "compressor"),
    [
        ([{"id": "vlen-utf8"}, {"id": "WORD"}], None),
        ([{"id": "vlen-utf8"}], {"id": "WORD"}),
        ([{"id": "WORD"}], None),
    ],
)
def test_zarr_maps_run_nothing_however_their_codec_is_spelled(
    filters: Any, compressor: Any, word: str, tmp_path: Path, sprung: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # what older releases of numcodecs do without being asked
    monkeypatch.setattr("numcodecs.pickles.ALLOW_UNSAFE_PICKLE_DECODE", True, raising=False)
    folder = tmp_path / "maps.zarr"
    (folder / "ids").mkdir(parents=True)
    (folder / ".zgroup").write_text('{"zarr_format": 2}')
    head = {"zarr_format": 2, "shape": [4], "chunks": [4], "dtype": "|O", "fill_value": None, "order": "C"}
    text = json.dumps(head | {"filters": filters, "compressor": compressor}).replace("WORD", word)
    (folder / "ids" / ".zarray").write_text(text)
    (folder / "ids" / "0").write_bytes(pickle.dumps(Trap(sprung)))
    with pytest.raises(RoadworthyError, match="pickled data|cannot be read"):
        open_maps(folder)


def test_settings_files_make_no_objects(tmp_path: Path, sprung: Path) -> None:
    file = tmp_path / "experiment.yaml"
    for text in (f"name: !!python/object/apply:os.mkdir ['{sprung}']", "a: &x [1]\nb: *x"):
        file.write_text(text)
        with pytest.raises(InputError, match="line [12]"):
            rw.sweep.load_experiment(file)


def test_code_that_is_named_is_run_and_said_to_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "trusted_by_name.py").write_text("import os\nos.mkdir('ran')\ndef make():\n    return None\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RoadworthyError):
        rw.load_model("trusted_by_name:make")
    assert (tmp_path / "ran").exists()
    assert "package.module:factory" in (ROOT / "SECURITY.md").read_text(encoding="utf8")


def test_pages_load_nothing_and_run_their_own_scripts_alone(run: Path, tmp_path: Path) -> None:
    text = rw.report(run, tmp_path / "report.html").read_text(encoding="utf8")
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert all(part.startswith("'sha256-") for part in rules["script-src"].split())
    assert "connect-src" not in rules


SAFE = {
    "torch.load": ("weights_only", True),
    "np.load": ("allow_pickle", False),
    "numpy.load": ("allow_pickle", False),
}


def test_nothing_in_the_package_unpickles() -> None:
    """Readers that could unpickle are called in their safe form alone; pickle is imported for its exception."""
    seen: dict[str, int] = {}
    for path in sorted((ROOT / "src").rglob("*.py")):
        text = path.read_text(encoding="utf8")
        if not re.search(r"load|pickle|dill|eval|exec", text):  # most files, and parsing is slow
            continue
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.Call):
                continue
            name = ast.unparse(node.func)
            seen[name] = seen.get(name, 0) + 1
            if name in SAFE:
                key, value = SAFE[name]
                given = {word.arg: ast.unparse(word.value) for word in node.keywords}
                assert given.get(key) == str(value), f"{path}: {name}"
    assert seen["torch.load"] >= 3
    assert seen["np.load"] >= 5
    unsafe = {
        name
        for name in seen
        if re.search(r"pickle\.(loads?|Unpickler)|read_pickle$|joblib\.|dill\.|^eval$|^exec$", name)
    }
    assert unsafe <= {"_read_pickle"}, unsafe


def told(section: str) -> str:
    text = (ROOT / "SECURITY.md").read_text(encoding="utf8")
    return text.split(f"## {section}")[1].split("\n## ")[0]


@pytest.mark.parametrize("word", ["torch.load", "safetensors", "YAML", "zarr", "HDF5", "TFRecord", "pickle"])
def test_the_page_speaks_of_every_kind_of_file(word: str) -> None:
    assert word in told("What is not trusted") + told("What is trusted")


def test_the_page_has_what_a_reporter_looks_for() -> None:
    assert rw.__version__.rsplit(".", 1)[0] in told("Supported versions")
    assert told("Reporting")
