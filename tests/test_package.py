import json
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def python(executable, program, *arguments):
    """Run a program elsewhere, with neither the sources nor the environment of this process."""
    command = [str(executable), "-I", "-c", program, *map(str, arguments)]
    done = subprocess.run(command, cwd="/", capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def clean(wheel, tmp_path_factory):
    """A new environment with the wheel; only its dependencies come from the running one."""
    folder = tmp_path_factory.mktemp("clean") / "venv"
    venv.create(folder, with_pip=False, symlinks=True)
    executable = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    site = Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    dependencies = {sysconfig.get_path(name) for name in ("purelib", "platlib")}
    (site / "dependencies.pth").write_text("\n".join(sorted(dependencies)))  # the .pth files in there are not followed
    assert python(executable, "import embedlift; print(embedlift.__file__)").startswith(str(site))
    return executable


def source_files():
    return {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src" / "embedlift").rglob("*.py")}


def test_every_module_and_the_type_marker_are_in_the_wheel(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = archive.read(next(name for name in names if name.endswith("METADATA"))).decode()
        entry_points = archive.read(next(name for name in names if name.endswith("entry_points.txt"))).decode()
    assert source_files() <= names
    assert "embedlift/py.typed" in names
    assert not [name for name in names if not name.startswith("embedlift")]
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert "License-Expression: Apache-2.0" in metadata
    assert "Requires-Python: >=3.10" in metadata
    assert "embedlift = embedlift.cli:main" in entry_points


IMPORT_ALL = """
import importlib, json, sys
names = [name for name in json.loads(sys.argv[1]) if name != "embedlift.__main__"]
for name in names:
    module = importlib.import_module(name)
    assert module.__file__.startswith(sys.prefix), module.__file__
print(len(names))
"""


def test_every_module_can_be_imported_from_the_wheel(clean):
    names = sorted(file.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for file in source_files())
    assert int(python(clean, IMPORT_ALL, json.dumps(names))) == len(names) - 1


LAZY = """
import sys
import embedlift
assert embedlift.__version__
assert not {"torch", "transformers", "sentence_transformers", "numpy", "sklearn"} & {*sys.modules}
try:
    embedlift.no_such_name
except AttributeError as error:
    print(error)
from embedlift import Encoder, InputError, adapt
assert Encoder.__module__ == "embedlift.encoder" and adapt.__module__ == "embedlift.adaptation"
assert sorted(embedlift.__all__) == ["Encoder", "InputError", "__version__", "adapt"]
"""


def test_the_root_package_is_light_and_resolves_its_names_when_asked(clean):
    assert python(clean, LAZY).strip() == "module 'embedlift' has no attribute 'no_such_name'"


def test_the_command_line_of_the_wheel(clean):
    program = "import runpy, sys; sys.argv[1:] = ['--help']; runpy.run_module('embedlift', run_name='__main__')"
    out = python(clean, program)
    for name in ("adapt", "evaluate", "diagnose", "encode", "fit", "transform"):
        assert name in out
