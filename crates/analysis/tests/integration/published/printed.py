"""The digits that a report prints in its tables."""

from html.parser import HTMLParser

# The relative difference that may lie on the other side of a rounding border.
BORDER = 1e-11


class Tables(HTMLParser):
    """The printed figures: by (table, row) and kind of line, a list of (figure, text after it)."""

    def __init__(self, page):
        super().__init__()
        self.figures = {}
        self.table = self.line = self.kind = self.text = None
        self.rows = 0
        self.is_row = False
        # The rest of a page may be large: graphs and waterfalls.
        start = '<div class="table" id='
        for part in page.split(start)[1:]:
            self.feed(start + part.partition("</table>")[0] + "</table>")

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        classes = (attributes.get("class") or "").split()
        if tag == "div" and "table" in classes and "id" in attributes:
            self.table, self.rows = attributes["id"], -1
        elif self.table is None:
            return
        elif tag == "tbody":
            self.is_row = "section" not in classes
            self.rows += self.is_row
        elif tag == "tr" and self.is_row:
            self.line, self.kind = [], "ours"
        elif tag == "td" and self.line is not None:
            cell = {"kind", "value", "aside"} & set(classes)
            self.text = [next(iter(cell)), "", True] if cell else None
        elif tag == "sup" and self.text:
            # The number of a footnote.
            self.text[2] = False

    def handle_data(self, data):
        if self.text and self.text[2]:
            self.text[1] += data

    def handle_endtag(self, tag):
        if tag == "sup" and self.text:
            self.text[2] = True
        elif tag == "td" and self.text:
            cell, text, _ = self.text
            if cell == "kind":
                self.kind = text or "ours"
            elif cell == "value":
                self.line.append((text, ""))
            else:
                self.line[-1] = (self.line[-1][0], text)
            self.text = None
        elif tag == "tr" and self.line is not None:
            # The paper's figures follow ours, and again those relative to another row.
            self.figures.setdefault((self.table, self.rows), {}).setdefault(self.kind, self.line)
            self.line = None
        elif tag == "table":
            self.table = None
            self.is_row = False


def decimals(value):
    """Three significant digits, and at most three decimals."""
    return next((digits for digits, end in ((3, 0.9995), (2, 9.995), (1, 99.95)) if abs(value) < end), 0)


def candidates(value):
    return (value, value * (1.0 + BORDER), value * (1.0 - BORDER))


def texts(entry, level):
    """The correct texts for an entry: figures, and texts after them."""
    value, half = entry.found.value, entry.found.half(level)
    is_relative = entry.place[-1] == "rel."
    places = {
        entry.decimals if entry.decimals is not None else decimals(one) for one in candidates(value)
    }
    figures = {f"{one:.{digits}f}" for digits in places for one in candidates(value)}
    behind = set()
    for one in candidates(half) if half is not None else ():
        for digits in {decimals(one)} if is_relative else places:
            text = f"{one:.{digits}f}"
            is_shown = one >= 0.0005 if is_relative else text.strip("0.")
            behind.add(f"±{text}" if is_shown else "")
    return figures, behind or {""}


def differences(entries, page, level):
    """Each table entry whose printed digits differ from the raw records, with both texts; and the number of entries checked."""
    printed = Tables(page).figures
    differ, count = [], 0
    for entry in entries:
        if entry.place is None or entry.found is None:
            continue
        table, line, column, kind = entry.place
        row = printed.get((table, line), {}).get(kind)
        count += 1
        shown = row[column] if row and column < len(row) else None
        figures, behind = texts(entry, level)
        if shown is None or shown[0] not in figures or shown[1] not in behind:
            differ.append({"entry": entry.name, "printed": shown, "found": [sorted(figures), sorted(behind)]})
    return differ, count
