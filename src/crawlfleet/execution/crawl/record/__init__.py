"""Records that a crawl keeps besides items: page notes and WARC archives."""
