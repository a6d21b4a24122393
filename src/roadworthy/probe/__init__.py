"""Features of a pretrained network, a classifier on them, and how high it ranks the right class."""

from roadworthy.probe.classifier import LogisticClassifier, fit_classifier, load_classifier
from roadworthy.probe.epochs import EpochRanks, Trend, read_epochs
from roadworthy.probe.extract import extract_features
from roadworthy.probe.features import Features, read_features
from roadworthy.probe.fit import Probe, model_scores, probe_features, score_features
from roadworthy.probe.ranks import RankK, rank_k
from roadworthy.probe.scores import Scores, read_scores, write_scores

__all__ = [
    "EpochRanks",
    "Features",
    "LogisticClassifier",
    "Probe",
    "RankK",
    "Scores",
    "Trend",
    "extract_features",
    "fit_classifier",
    "load_classifier",
    "model_scores",
    "probe_features",
    "rank_k",
    "read_epochs",
    "read_features",
    "read_scores",
    "score_features",
    "write_scores",
]
