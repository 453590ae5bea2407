//! Result documents to one self-contained HTML file.
