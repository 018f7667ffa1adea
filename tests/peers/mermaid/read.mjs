// Reads a diagram a line from standard input, as a JSON string, and answers each with a line: what Mermaid found in it.
import { createRequire } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const folder = process.argv[2];
const load = (name) => import(pathToFileURL(createRequire(join(folder, "package.json")).resolve(name)).href);
const { JSDOM } = await load("jsdom");
globalThis.window = new JSDOM("<!DOCTYPE html><body></body>").window; // DOMPurify, through which labels go, needs one
globalThis.document = window.document;
const mermaid = (await import(pathToFileURL(join(folder, "node_modules/mermaid/dist/mermaid.core.mjs")).href)).default;
mermaid.initialize({ startOnLoad: false, securityLevel: "strict" });

const read = async (text) => {
  const { config } = await mermaid.parse(text);
  const { db } = await mermaid.mermaidAPI.getDiagramFromText(text);
  return {
    config,
    nodes: Object.fromEntries([...db.getVertices().values()].map((node) => [node.id, node.text])),
    boxes: Object.fromEntries(db.getSubGraphs().map((box) => [box.id, { title: box.title, nodes: box.nodes, dir: box.dir }])),
    arrows: db.getEdges().map((arrow) => ({ tail: arrow.start, head: arrow.end, label: arrow.text, stroke: arrow.stroke })),
    classes: Object.fromEntries([...db.getVertices().values()].map((node) => [node.id, node.classes])),
  };
};

for await (const line of createInterface({ input: process.stdin })) {
  try {
    console.log(JSON.stringify(await read(JSON.parse(line))));
  } catch (error) {
    console.log(JSON.stringify({ error: String(error) }));
  }
}
