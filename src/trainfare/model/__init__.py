"""The nouns: frozen, validated, with units in their names. A noun is a belief or a fact, never both.

program   what the user runs            profile    facts measured in one short run of it
machine   Gpu, VmType, Host             offer      a machine at a price on a day; Candidate
interval  a value and how sure          estimate   a belief about a Candidate
plan      Goal, Plan                    queue      Fleet, Job, State, Decision: what a scheduler sees and says
schedule  which job ran where and when, and what it came to
run       Run, Observation              document   JSON in and out, versioned
"""
