"""Facts given in the context and asked back, one or several at once, at any distance."""
from tools.tiny_model import words
from tools.tiny_model.document import Document, choose, conversation, message

NOTES = {"en": ["Please remember these notes.", "Here are some notes.", "Keep this in mind."],
         "ko": ["이 메모를 기억해 줘.", "메모를 줄게.", "이걸 기억해."]}
TAKEN = {"en": ["I will remember.", "Noted.", "I have it."], "ko": ["기억할게요.", "적어 두었어요.", "알겠어요."]}
FILLER = {"en": [("How are you?", "I am fine, thank you."), ("Nice weather today.", "Yes, it is lovely."),
                 ("I am a little tired.", "Take a short rest."), ("Let us go on.", "Gladly."),
                 ("That was a long day.", "I hope it was a good one."), ("Thank you.", "You are welcome.")],
          "ko": [("잘 지내?", "네, 잘 지내요."), ("오늘 날씨가 좋네.", "네, 정말 좋아요."),
                 ("조금 피곤해.", "잠깐 쉬세요."), ("계속하자.", "좋아요."),
                 ("긴 하루였어.", "좋은 하루였기를 바라요."), ("고마워.", "천만에요.")]}
TOKENS_OF_FACT, TOKENS_OF_TURN = 5, 12  # about


def draw_facts(rng, split, language, count):
    """-> [(name, attribute, value)], a name and attribute at most once."""
    facts, seen = [], set()
    attributes = words.FACTS[language]
    for _ in range(count):
        def draw():
            attribute = rng.choice(list(attributes))
            return (rng.choice(words.NAMES[language]), attribute, rng.choice(attributes[attribute]))
        name, attribute, value = choose(rng, split, draw)
        if (name, attribute) not in seen:
            seen.add((name, attribute))
            facts.append((name, attribute, value))
    return facts


def line(fact):
    return f"{fact[0]} {fact[1]}: {fact[2]}"


def question(rng, language, asked):
    if len(asked) == 1:
        name, attribute, _ = asked[0]
        if language == "ko":
            return rng.choice([f"{name} {attribute}?", f"{name}의 {attribute}은?", f"{name} {attribute} 뭐야?"])
        return rng.choice([f"{name} {attribute}?", f"What is {name}'s {attribute}?", f"Tell me {name}'s {attribute}."])
    return " ".join(f"{name} {attribute}?" for name, attribute, _ in asked)


def draw_questions(rng, facts, most):
    """Up to `most` lists of one to three facts. No fact comes twice: its first answer would stand
    nearer than the note."""
    left = rng.sample(facts, len(facts))
    questions = []
    while left and len(questions) < most:
        count = rng.choice([1, 1, 1, 2, 3])
        questions.append(left[:count])
        left = left[count:]
    return questions


def draw(rng, split, budget):
    """A conversation of about `budget` tokens."""
    language = rng.choice(["en", "ko"])
    num_facts = rng.randint(2, 4 + budget // 25)
    facts = draw_facts(rng, split, language, num_facts)
    notes = rng.choice(NOTES[language]) + "\n" + "\n".join(map(line, facts))
    messages = [message("user", notes), message("assistant", rng.choice(TAKEN[language]))]
    questions = draw_questions(rng, facts, rng.randint(2, max(2, budget // 30)))
    room = max(0, budget - 30 - TOKENS_OF_FACT * len(facts) - TOKENS_OF_TURN * len(questions)) // TOKENS_OF_TURN
    turns = [rng.choice(FILLER[language]) for _ in range(rng.choice([room, rng.randint(0, room)]))]
    for asked in questions:
        turns.insert(rng.randint(0, len(turns)),
                     (question(rng, language, asked), "\n".join(map(line, asked))))
    for user, assistant in turns:
        messages += [message("user", user), message("assistant", assistant)]
    return Document("recall", conversation(messages), tuple(fact[2] for fact in facts))


def draw_distant(rng, split, distance):
    """One question about `distance` tokens behind its fact, with other facts and talk between:
    -> (Document whose last answer is asked for, the expected answer)."""
    language = rng.choice(["en", "ko"])
    facts = draw_facts(rng, split, language, 6)
    asked = facts[0]
    messages = [message("user", rng.choice(NOTES[language]) + "\n" + "\n".join(map(line, facts))),
                message("assistant", rng.choice(TAKEN[language]))]
    for _ in range(max(0, (distance - 40) // TOKENS_OF_TURN)):
        user, assistant = rng.choice(FILLER[language])
        messages += [message("user", user), message("assistant", assistant)]
    messages.append(message("user", question(rng, language, [asked])))
    messages.append(message("assistant", line(asked)))
    return Document("recall", conversation(messages), (asked[2],)), line(asked)
