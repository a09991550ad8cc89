"""Files that programs have left: ``kinds`` tells what they are, ``store`` keeps them for a while."""
