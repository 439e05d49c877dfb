//! Scraping and the short-term metric store.
