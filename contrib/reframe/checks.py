"""Tests to begin with: an experiment on each host, and two between two hosts."""

import reframe as rfm

from niclab_reframe import ON_PEER, NiclabExperiment, NiclabPair


@rfm.simple_test
class OneHost(NiclabExperiment):
    """How many frames of each size does the host forward?"""

    experiment = "frame-size"
    arguments = "--repeats 6"
    figures = ["frame-size-pps/*"]
    time_limit = "10m"


@rfm.simple_test
class TwoHosts(NiclabPair):
    """The same, with the device on the second host and niclab on the first."""

    experiment = "frame-size"
    arguments = "--repeats 6"
    figures = ["frame-size-pps/*"]
    time_limit = "10m"


@rfm.simple_test
class Cable(NiclabPair):
    """The same between two ports that are cabled to each other: the first host is the tester."""

    experiment = "frame-size"
    tester = "local=linux:eth1"
    device = f"{ON_PEER}=linux:eth1"
    arguments = "--repeats 6"
    figures = ["frame-size-pps/*"]
    time_limit = "10m"
