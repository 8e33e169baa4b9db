import numpy as np
import pytest
from sentence_transformers.sentence_transformer.evaluation import EmbeddingSimilarityEvaluator

from embedlift.errors import InputError
from embedlift.evaluation import correlation
from embedlift.evaluation.bootstrap import draws, spearman


def vectors(seed=0, count=40):
    """Vectors of pairs that are alike where gold is high, with lengths that tell cosine from dot."""
    rng = np.random.default_rng(seed)
    gold = rng.integers(0, 6, count).astype(float)
    left, noise = rng.normal(size=(2, count, 5))
    right = gold[:, None] / 5 * left + noise
    return left * rng.lognormal(size=(count, 1)), right, gold


def correlate(left, right, gold, metrics=correlation.METRICS):
    found = correlation.Similarities.of(left, right, metrics)
    return dict(
        zip(metrics, correlation.correlate(found, gold, metrics, seed=[0], clusters=np.arange(len(gold))), strict=True)
    )


class Given(EmbeddingSimilarityEvaluator):
    """Sentence-transformers' evaluator on given vectors."""

    def embed_inputs(self, model, sentences, **kwargs):
        return np.array([model[sentence] for sentence in sentences])

    def store_metrics_in_model_card_data(self, *args, **kwargs):
        pass


def test_all_metrics_are_those_of_sentence_transformers():
    left, right, gold = vectors()
    model = {f"l{i}": row for i, row in enumerate(left)} | {f"r{i}": row for i, row in enumerate(right)}
    sides = [[f"{side}{i}" for i in range(len(gold))] for side in "lr"]
    theirs = Given(*sides, gold, similarity_fn_names=list(correlation.SIMILARITIES))(model)
    ours = correlate(left, right, gold)
    assert len(ours) == 8
    assert len({found.value for found in ours.values()}) == 8
    for metric, found in ours.items():
        similarity, kind = metric.split("_")
        assert found.value == pytest.approx(theirs[f"{kind}_{similarity}"], abs=1e-6)


def test_draws_are_those_of_the_metric():
    left, right, gold = vectors()
    found = correlate(left, right, gold)["dot_spearman"]
    expected = draws([spearman((left * right).sum(axis=1), gold)], len(gold), seed=[0], clusters=np.arange(len(gold)))
    np.testing.assert_allclose(found.draws, expected[0], atol=1e-12)


def test_a_metric_is_undefined_alone():
    """Vectors of one direction: no cosine, but lengths still say something."""
    left, right = np.outer(np.linspace(1, 2, 20), [3, 4]), np.outer(np.ones(20), [0.6, 0.8])
    found = correlate(left, right, np.arange(20.0), ("cosine_pearson", "dot_pearson", "euclidean_pearson"))
    assert {name: found[name].note is None for name in found} == {
        "cosine_pearson": False,
        "dot_pearson": True,
        "euclidean_pearson": True,
    }
    assert found["dot_pearson"].value == pytest.approx(1)
    assert np.isnan(found["cosine_pearson"].draws).all()


@pytest.mark.parametrize("scale", [1e-4, 1, 1e4])
@pytest.mark.parametrize("similarity", correlation.SIMILARITIES)
def test_rounding_is_called_collapsed_at_every_scale(similarity, scale):
    rng = np.random.default_rng(0)
    left, right = scale * (np.array([[[1.0, 2, 3]], [[3, 1, 2]]]) + 1e-8 * rng.normal(size=(2, 20, 3)))
    (found,) = correlate(left, right, np.arange(20.0), (f"{similarity}_spearman",)).values()
    assert np.isnan(found.value)
    assert "collapsed" in found.note


def test_unknown_metrics():
    assert correlation.check_metrics(["dot_pearson"]) == ("dot_pearson",)
    with pytest.raises(InputError, match="unknown metric 'pearson_dot': choose from cosine_spearman, cosine_pearson"):
        correlation.check_metrics(["dot_pearson", "pearson_dot"])
