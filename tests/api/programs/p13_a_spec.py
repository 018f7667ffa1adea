"""A spec."""

import understudy as us
from tests.support.programs import Models

MODELS = Models({})
NEWSROOM = """\
agents:
  - id: summarizer
    model: rehearsal
    tools: [web_search]
    callbacks: [{name: audit}]
  - {id: any-id, model: rehearsal}
workflows:
  - {id: pipeline, type: sequential, pass_output: true, steps: [{ref: summarizer}, {ref: any-id}]}
  - {id: panel, type: parallel, steps: [{ref: summarizer}, {ref: any-id}]}
  - {id: dag, type: workflow, tasks: [{id: fetch, agent: summarizer, prompt: "Gather ${topic}"}]}
"""


class Audit(us.AgentCallback):
    """Says nothing."""


@us.tool
def web_search(query: str) -> str:
    """Search the web."""
    return query


# The program:
company = us.load_spec("newsroom.yaml", tools={"web_search": web_search}, callbacks={"audit": Audit()})     # us.load_spec_text(text, …)
company.agent("summarizer"); company.sequential("pipeline"); company.parallel("panel"); company.workflow("dag"); company.runner("any-id")
us.SpecLoader().register_tool("web_search", web_search).register_callback("audit", Audit()).load_file("newsroom.yaml")    # the same, step by step
