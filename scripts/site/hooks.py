"""Turns links of docs/ that leave it into links to the repository, at the version that the site is built from."""

import os
import re

LINK = re.compile(r"(\]\()([^)\s#]+)((?:#[^)\s]*)?\))")


def on_page_markdown(markdown, page, config, files):
    docs = config["docs_dir"]
    root = os.path.dirname(docs)
    folder = os.path.dirname(page.file.abs_src_path)

    def target(match):
        path = match[2]
        if "://" in path or path.startswith("mailto:"):
            return match[0]
        there = os.path.normpath(os.path.join(folder, path))
        if there.startswith(docs + os.sep) and os.path.isfile(there):
            return match[0]
        if not os.path.exists(there):
            return match[0]  # the strict build refuses it
        kind = "tree" if os.path.isdir(there) else "blob"
        ref = os.environ.get("SITE_REF", "main")
        return f"{match[1]}{config['repo_url']}/{kind}/{ref}/{os.path.relpath(there, root)}{match[3]}"

    return LINK.sub(target, markdown)
