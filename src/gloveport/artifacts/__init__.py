"""Files that programs have left: ``kinds`` tells what they are, ``artifact_store`` keeps them for a while."""
