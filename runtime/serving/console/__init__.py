"""Web console, served below /console/ by the site.

assets      files of the page, compressed, with addresses that change with their content
streams     server-sent events: samples of each page, computed once for all its viewers, sent as differences
pages       routes, and what the console may show and do
static/     the page itself; static/vendor/ contains files of other projects, listed with hashes in vendor.json
"""
