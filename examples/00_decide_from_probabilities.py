"""From relation probabilities to an action, an explanation and a plan."""

import cpor

scene = cpor.ObstructionPosterior(
    objects=["red mug", "cereal box", "screwdriver", "banana"],
    target="red mug",
    p_obstructs={
        ("red mug", "cereal box"): 0.93,  # the mug is obstructed by the box
        ("cereal box", "screwdriver"): 0.88,
        ("screwdriver", "cereal box"): 0.21,  # contradicts the line above: both cannot hold
        ("cereal box", "banana"): 0.30,
        ("red mug", "banana"): None,  # asked, and no answer came
    },
)

decision = cpor.decide(scene)
print("without that answer:", decision.action)
print("worth asking:", cpor.explain(scene).ask_next)

answered = scene.with_prior(0.1)
decision = cpor.decide(answered)
print("with it at 0.1:", decision.action, {name: round(p, 3) for name, p in decision.scores.items()})

plan = cpor.plan(answered, max_steps=3)
for step in plan.steps:
    print(f"remove {step.obj}: valid {step.p_valid:.0%}, needed {step.p_needed:.0%}")
print(f"then grasp {plan.target}: the whole plan is valid with {plan.p_valid:.0%}")
