"""Draws runners as Mermaid, DOT or SVG.

Runners come in to `draw`, from a loaded spec or from Python code. `layout` turns them into a `Picture` of nodes, nested
boxes and arrows, with words that are single lines of printable text. `mermaid` and `dot` write a picture
in their language and escape everything that would be syntax there. For SVG, `render` runs Graphviz's `dot` on the text.

A text goes out. Drawing runs no agent, needs no key and builds no schema; a picture that would be too large is refused
with a `DrawingError`.
"""
