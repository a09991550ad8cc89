"""Artifacts, files that programs have left: ``kinds`` tells their types, ``artifact_store`` keeps them for a while."""
