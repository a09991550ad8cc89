"""Artifacts, files that programs have left: ``media_types`` detects what they are, ``artifact_store`` keeps them."""
