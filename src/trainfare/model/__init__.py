"""The nouns: frozen, validated, with units in their names. A noun is a prediction or a fact, never both.

program      the user's command                    profile      facts measured in one short run of it
machine      Gpu, VmType, Host                     offer        a machine at a price on a day; Candidate, Commitment
interval     a value with its uncertainty          estimate     the predicted time and cost of a Candidate
bill         a provider's charges, line by line    scope        restrictions on candidates
epochs       the number of epochs, by one rule     plan         Goal, Plan; reason, split: parts of a plan
spot         availability and deadlines on spot    cluster      a parameter server and its workers
catalog      rows of the price list, imports       submission   a training in the queue of a team
queue        Fleet, Job, State, Decision           schedule     the jobs that ran, where, when, and their cost
run          Run, Fact, Observation                rented       a machine that a door was asked for
lease        the right to supervise, for a while
document     JSON documents of nouns, versioned    checks       checks of fields
"""
