"""Several agents."""

import understudy as us
from tests.support.programs import Models
from understudy import testing

MODELS = Models({
    "sentiment": testing.ScriptedModel([testing.says("Glad.")] * 2),
    "summary": testing.ScriptedModel([testing.says("It adds tides.")] * 2),
    "writer": testing.ScriptedModel([testing.says("Readers are glad."), testing.says("Tides, at last.")]),
    "researcher": testing.ScriptedModel([testing.says("The moon does it.")]),
    "checker": testing.ScriptedModel([testing.says('{"verdict": "true"}')]),
})

sentiment = us.Agent("sentiment", model="openai:gpt-4o")
summary = us.Agent("summary", model="openai:gpt-4o")
writer = us.Agent("writer", model="openai:gpt-4o")
researcher = us.Agent("researcher", model="openai:gpt-4o")
checker = us.Agent("checker", model="openai:gpt-4o")

# The program:
panel = us.ParallelAgent("panel", [sentiment, summary], merge="collect_all")     # or merge="first"
report = us.SequentialAgent("report", [panel, writer], pass_output=True)         # runners nest freely
print(report.run("The new release adds …").text, panel.run("The new release adds …").combined_text)

brief = us.Workflow("brief", tasks=[
    us.Task("fetch", researcher, prompt="Gather background on ${topic}"),
    us.Task("check", checker, prompt="Check: ${fetch}", dependencies=["fetch"], retries=2),
    us.Task("write", writer, prompt="Write it up: ${check.verdict}", dependencies=["check"]),
])
outcome = brief.run(parameters={"topic": "tidal power"})
print(outcome.text, outcome.tasks["fetch"].text, outcome.tasks["fetch"].status)
