"""The examples of potato-agent's page on orchestration, carried over: programs that are given the models of their agents."""

from __future__ import annotations

from collections.abc import Callable

import understudy as us
from understudy.orchestration.group.spec import PassOutput

Models = Callable[[str, str], us.Model]
"""Takes an agent's id and the name of OpenAI's model; returns the model that answers for it."""

PROMPTS = {
    "planner": "You are a planner. Outline the steps to complete the user's task.",
    "executor": "You are an executor. Carry out the plan provided to you.",
    "sentiment": "Analyze the sentiment of the provided text. Return: positive, negative, or neutral.",
    "summary": "Summarize the provided text in one sentence.",
    "web_search": "Search the web.",
    "database": "Search the database.",
    "knowledge_base": "Search the knowledge base.",
    "synthesizer": "Synthesize the research results into a coherent answer.",
    "step_a1": "You are the first step of pipeline a.",
    "step_a2": "You are the second step of pipeline a.",
    "step_b1": "You are the first step of pipeline b.",
    "step_b2": "You are the second step of pipeline b.",
}
ANSWERS = {
    "planner": "1. Outline. 2. Write.",
    "executor": "Rust is a language.",
    "sentiment": "positive",
    "summary": "Rust adds something.",
    "web_search": "Found on the web.",
    "database": "Found in the database.",
    "knowledge_base": "Found in the knowledge base.",
    "synthesizer": "All of it agrees.",
    "step_a1": "a1 is done.",
    "step_a2": "a2 is done.",
    "step_b1": "b1 is done.",
    "step_b2": "b2 is done.",
}
"""What the models of the agents say."""


def agent(models: Models, id: str, name: str = "gpt-4o") -> us.Agent:
    return us.Agent(id, model=models(id, name), system_prompt=PROMPTS[id])


def sequential_agent(models: Models, answer: str = "") -> us.SessionState:
    """SequentialAgent."""
    planner, executor = agent(models, "planner"), agent(models, "executor")
    pipeline = us.SequentialAgent("pipeline", [planner, executor], pass_output=True)
    session = us.SessionState()

    match pipeline.run("Write a blog post about Rust", session=session):
        case us.Complete(text=text):
            print(text)
        case us.NeedsInput(question=question, token=token):
            print(f"Pipeline needs input: {question}")
            print(pipeline.resume(token, answer).text)
        case other:
            print(other.completion_reason)
    return session


def parallel_agent(models: Models) -> None:
    """ParallelAgent."""
    sentiment, summary = agent(models, "sentiment", "gpt-4o-mini"), agent(models, "summary")
    parallel = us.ParallelAgent("parallel", [sentiment, summary], merge="collect_all")

    match parallel.run("The new Rust release adds...", session=us.SessionState()):
        case us.Complete(combined_text=combined) if combined is not None:
            print(f"All responses: {combined}")
        case us.NeedsInput(question=question):
            print(f"Needs input: {question}")
        case other:
            print(other.completion_reason)


def parallel_step_inside_a_sequential_pipeline(models: Models, pass_output: PassOutput = True) -> None:
    """Parallel step inside a sequential pipeline."""
    children = [agent(models, id) for id in ("web_search", "database", "knowledge_base")]
    research = us.ParallelAgent("research", children, merge="collect_all")
    pipeline = us.SequentialAgent("pipeline", [research, agent(models, "synthesizer")], pass_output=pass_output)

    print(pipeline.run("What is known?").text)


def sequential_steps_inside_a_parallel_agent(models: Models) -> None:
    """Sequential steps inside a parallel agent."""
    pipeline_a = us.SequentialAgent(
        "pipeline_a", [agent(models, "step_a1"), agent(models, "step_a2")], pass_output=True
    )
    pipeline_b = us.SequentialAgent(
        "pipeline_b", [agent(models, "step_b1"), agent(models, "step_b2")], pass_output=True
    )
    parallel = us.ParallelAgent("parallel", [pipeline_a, pipeline_b])

    print(parallel.run("Begin").combined_text)
