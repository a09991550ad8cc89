"""Changes to files of the workspace: understood, staged in memory, then written all or not at all.

``grammar`` and ``edits`` read what was asked, ``matching`` finds the lines; both end in splices of ``text``.
``staging`` makes one new content a file of them, ``commit`` writes these through a journal, ``restoring`` takes them
back; ``writer`` is the front.
"""
