"""Isolation backends and their mechanisms.

Imports between the subpackages point down: ``detection``, ``pool``, ``launch``, ``run``, ``cgroups``, ``reaper`` and
``seccomp``. ``base`` is the interface of a backend, ``plan`` its input.
"""
