"""The style sheet of a story's page: light and dark, one column on a narrow screen."""

STORY_STYLE = """
:root { color-scheme: light dark; --ink: #1c2330; --dim: #5b6472; --page: #ffffff; --card: #f5f7fa;
  --line: #d5dbe3; --main: #1f6fb2; --soft: #bcd6ec; --bad: #a8201a; --good: #0b6e4f; --tau: #8a5a00; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaf0; --dim: #a0a9b6; --page: #14181f;
  --card: #1d232c; --line: #38414e; --main: #6bb3f0; --soft: #2c5578; --bad: #ff8a80; --good: #6fd39a;
  --tau: #f0bf5c; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 80rem; background: var(--page);
  color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.7rem; margin: 0 0 .4rem; } h2 { font-size: 1.25rem; margin: 0 0 .4rem; }
p { margin: .4rem 0; } .note, figcaption { color: var(--dim); font-size: .9rem; }
.banner { font-size: 1.1rem; font-weight: 600; padding: .5rem .8rem; border-left: 6px solid;
  background: var(--card); border-radius: 4px; }
.good { color: var(--good); } .bad { color: var(--bad); }
dl { display: flex; flex-wrap: wrap; gap: .2rem 1.6rem; margin: .6rem 0 1.4rem; }
dl div { display: flex; gap: .4rem; white-space: nowrap; }
dt { color: var(--dim); } dt::after { content: ":"; } dd { margin: 0; font-weight: 600; }
.step { display: grid; grid-template-columns: minmax(0, 3fr) minmax(0, 2fr); gap: 1.2rem;
  background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 1rem;
  margin: 0 0 1.2rem; align-items: start; }
@media (max-width: 60rem) { .step { grid-template-columns: minmax(0, 1fr); } }
figure { margin: 0; } img { display: block; width: 100%; height: auto; border-radius: 6px; }
.bars { width: 100%; border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums;
  margin: .6rem 0; }
caption { text-align: left; color: var(--dim); padding-bottom: .2rem; }
.bars th { text-align: left; font-weight: 400; padding: .15rem .5rem .15rem 0; }
.bars .chosen th, .bars .chosen .number { font-weight: 700; }
.id { display: inline-block; min-width: 1.6em; text-align: center; border: 1px solid var(--dim);
  border-radius: 1em; font-size: .8em; color: #181c24; }
.number { text-align: right; padding-right: .5rem; white-space: nowrap; } .track { width: 38%; }
.bar { position: relative; display: block; height: .85rem; background: var(--page);
  border: 1px solid var(--line); border-radius: 3px; overflow: hidden; }
.bar i { position: absolute; top: 0; bottom: 0; left: 0; } .maybe { background: var(--soft); }
.sure { background: var(--main); } .bar .tau { width: 2px; background: var(--tau); }
.outcome { font-weight: 600; } .truth { font-size: .9rem; color: var(--dim); }
.pictures { display: grid; grid-template-columns: repeat(auto-fit, minmax(20rem, 1fr)); gap: 1rem; }
@media print { .step { break-inside: avoid; } }
"""
