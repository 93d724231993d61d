"""Empty registries of every kind: in a folder, and in a bucket of moto's S3 server."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from zoo.models.registries.registry import Registry, open_registry
from zoo.report import Report


@pytest.fixture(scope="session")
def s3() -> Iterator[str]:
    """Address of moto's S3 server."""
    reason = "S3 is tested with moto's server: `pip install -e '.[test]'` installs it and s3fs"
    pytest.importorskip("s3fs", reason=reason)
    server = pytest.importorskip("moto.server", reason=reason).ThreadedMotoServer("127.0.0.1", 0)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(s3: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """Address in a new, empty bucket."""
    import s3fs

    monkeypatch.delenv("ZOO_OFFLINE", raising=False)
    keys = {"AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any", "AWS_DEFAULT_REGION": "us-east-1"}
    for name, value in {**keys, "AWS_ENDPOINT_URL": s3, "no_proxy": "*"}.items():
        monkeypatch.setenv(name, value)
    name = f"zoo-{abs(hash(tmp_path)):x}"
    s3fs.S3FileSystem(skip_instance_cache=True).mkdir(name)
    return f"s3://{name}/models"


@pytest.fixture(params=["folder", pytest.param("s3", marks=pytest.mark.integration)])
def registry(request: pytest.FixtureRequest, tmp_path: Path) -> Registry:
    """Empty registry that can be published to."""
    return open_registry(str(tmp_path / "registry") if request.param == "folder" else request.getfixturevalue("bucket"))


@pytest.fixture
def filled(tmp_path: Path, bundle: Callable[..., Path], summary: object) -> Callable[..., Registry]:
    """Function that publishes revisions of a model to the folder `registry`."""

    def fill(count: int = 1, name: str = "model") -> Registry:
        registry = open_registry(str(tmp_path / "registry"))
        for seed in range(count):
            registry.publish(name, bundle(seed, 1000 + len(name)), summary, Report())
        registry.write_index(Report())
        return registry

    return fill
