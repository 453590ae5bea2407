//! Result directories: the documents a run writes, appended and synced, read back and resumed.
