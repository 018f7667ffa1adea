"""The examples of potato-spec's page on specs: its YAML as it stands there, and its programs carried over."""

from __future__ import annotations

import textwrap

import understudy as us

FORMAT = """\
agents:
  - id: summarizer
    provider: anthropic
    model: claude-haiku-4-5
    system_prompt: |
      You are a summarization assistant.
    max_iterations: 3
    memory:
      type: windowed
      window_size: 5
    criteria:
      - type: max_iterations
        max: 3
      - type: keyword
        keyword: "DONE"
    callbacks:
      - type: logging
    tools: []

workflows:
  - id: pipeline
    type: sequential
    pass_output: true
    steps:
      - ref: summarizer
      - id: analyzer
        provider: anthropic
        model: claude-haiku-4-5
        system_prompt: Analyze the summary.
        criteria: []
        callbacks: []
        tools: []
"""
COMPLETE = """\
agents:
  - id: planner
    provider: openai
    model: gpt-4o
    system_prompt: "Outline the steps to complete the user's task."
    max_iterations: 1

  - id: executor
    provider: openai
    model: gpt-4o
    system_prompt: "Carry out the plan provided to you."
    max_iterations: 1

workflows:
  - id: plan_and_execute
    type: sequential
    pass_output: true
    steps:
      - ref: planner
      - ref: executor
"""
PARALLEL = """\
workflows:
  - id: multi_analysis
    type: parallel
    merge_strategy: collect_all   # or: first
    steps:
      - ref: sentiment_agent
      - ref: summary_agent
"""
GRAPH = """\
workflows:
  - id: dag
    type: workflow
    tasks:
      - id: fetch
        agent: researcher
        prompt: "Gather background information on ${topic}"
        dependencies: []
      - id: synthesize
        agent: writer
        prompt: "Write a report based on the research"
        dependencies: [fetch]
"""
SEQUENTIAL = """\
workflows:
  - id: pipeline
    type: sequential
    pass_output: true     # each agent receives the prior agent's output
    steps:
      - ref: summarizer   # reference an agent defined in the agents list
      - id: analyzer      # or define inline
        provider: openai
        model: gpt-4o
        criteria: []
        callbacks: []
        tools: []
"""
ASSISTANT = """
agents:
  - id: assistant
    provider: openai
    model: gpt-4o
    system_prompt: "You are a helpful assistant."
    max_iterations: 1
workflows: []
"""
WINDOWED = """\
memory:
  type: windowed
  window_size: 10
"""
IN_MEMORY = """\
memory:
  type: in_memory
"""
CRITERIA = """\
criteria:
  - type: max_iterations
    max: 5
  - type: keyword
    keyword: "DONE"
  - type: structured_output
    # schema: { ... }   # optional JSON Schema; omit to stop on any valid JSON
"""
CALLBACKS = """\
callbacks:
  - type: logging          # built-in
  - name: my_callback      # registered at load time
"""


def agents(*ids: str) -> str:
    """Return the agents that an example refers to."""
    lines = [f"  - {{id: {id}, model: 'openai:gpt-4o', system_prompt: You are the {id}.}}\n" for id in ids]
    return "agents:\n" + "".join(lines)


def agent_with(keys: str) -> str:
    """Return a spec of one agent with the keys of an example."""
    return "agents:\n  - id: a\n    model: openai:gpt-4o\n" + textwrap.indent(keys, "    ")


def plan_and_execute(file: str) -> None:
    """Run the complete example."""
    pipeline = us.load_spec(file).sequential("plan_and_execute")
    session = us.SessionState()

    match pipeline.run("Write a blog post about Rust", session=session):
        case us.Complete(text=text):
            print(text)
        case us.NeedsInput(question=question):
            print(f"Needs input: {question}")
        case other:
            print(other.completion_reason)
