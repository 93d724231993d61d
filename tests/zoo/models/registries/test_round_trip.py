"""A published model is pulled into another data folder and computes the same there."""

import pytest

import zoo
from zoo.publishing import reference_results
from zoo.publishing.publish import publish, upload, verify

pytestmark = pytest.mark.integration
NAME = "transformer-tiny-ende"


@pytest.fixture(params=["web", "s3"])
def addresses(request, tmp_path):
    """Addresses to publish to and to pull from."""
    if request.param == "s3":
        return (request.getfixturevalue("bucket"),) * 2
    return str(tmp_path / "registry"), request.getfixturevalue("web").address


def test_a_pulled_model_translates_as_its_run(trained, addresses, tmp_path, monkeypatch):
    run, texts = trained(), ["the old dog sees the cat", "", "two books?"]
    expected = zoo.load(run.folder, device="cpu").translate(texts, n_best=2)
    publish(run.folder)
    assert upload(NAME, addresses[0]).pin == f"{NAME}@1"
    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "another"))
    monkeypatch.setenv("ZOO_REGISTRIES", addresses[1])
    model = zoo.load(f"{NAME}@1", device="cpu")
    assert (model.translate(texts, n_best=2), model.longest_source) == (expected, 31)
    # Rows are scored one by one here and together when published: sums are rounded differently.
    assert verify(NAME).max_difference <= reference_results.TOLERANCE / 10
    assert len(list((tmp_path / "another" / "models").iterdir())) == 2
