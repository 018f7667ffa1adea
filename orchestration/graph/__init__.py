"""One run of a workflow: tasks that depend on each other.

The runtime makes a `GraphRun` of a `GraphSpec` and an input. A task becomes ready when its dependencies are decided. The
machine then evaluates the task's condition, fills the references in its prompt, and gives the runtime one child to
run, or one for each item of a list. The runtime reports each child. A failed task is retried if it may be; then the tasks
that depend on it are skipped, and the others go on. The outcome has each task's status and text.

`spec.py` also checks a workflow when it is defined: names, dependencies without a cycle, references that can be
filled. `conditions.py` parses conditions by a closed grammar; no text of a user or a model is executed.
"""
