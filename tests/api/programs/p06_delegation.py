"""Delegation."""

import understudy as us
from tests.support.programs import Models
from understudy import testing

MODELS = Models({
    "lead": testing.ScriptedModel([
        testing.calls("researcher", input="What moves the tides?") + testing.calls("draft", input="Write about tides."),
        testing.says("Published."),
    ]),
    "researcher": testing.ScriptedModel([testing.says("The moon does.")]),
    "writer": testing.ScriptedModel([testing.calls("checker", input="Tides rise."), testing.says("Tides rise.")]),
    "checker": testing.ScriptedModel([testing.says("True.")]),
})

checker = us.Agent("checker", model="openai:gpt-4o")
researcher = us.Agent("researcher", model="openai:gpt-4o", description="Finds facts.")
writer = us.Agent("writer", model="openai:gpt-4o", sub_agents=[checker])

# The program:
lead = us.Agent("lead", model="openai:gpt-4o", sub_agents=[researcher, us.SubAgent(writer, name="draft", description="Writes drafts", allow=["checker"])])
