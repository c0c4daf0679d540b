"""Everything the model is taught to say: small talk, what it does not know, JSON, and the kinds of
the other modules. draw() makes one document of any kind."""
import json

from tools.tiny_model import recall, sums, tool_calls, words
from tools.tiny_model.document import Document, choose, conversation, message

SYSTEM = {"en": ["You are a helpful assistant.", "You are Yeoul, a small model.", "Answer briefly."],
          "ko": ["당신은 친절한 도우미입니다.", "당신은 작은 모델 여울입니다.", "짧게 대답하세요."]}
SWAPPED_SHARE = 0.15  # of the slots of small talk
ONLY_KNOWS = {"en": "I only know what my small training taught me.", "ko": "저는 작은 훈련에서 배운 것만 알아요."}
ASK_OUTSIDE = {"en": ["Tell me about {}.", "What do you know about {}?", "Explain {}."],
               "ko": ["{}에 대해 알려 줘.", "{} 설명해 줘.", "{}에 대해 뭘 알아?"]}

# question -> answer; {name}, {food}, ... are drawn from the world
TALK = {
    "en": [("Hello!", "Hello! How can I help you?"), ("Hi, I am {name}.", "Nice to meet you, {name}!"),
           ("Good morning, my name is {name}.", "Good morning, {name}! How can I help you?"),
           ("Who are you?", "I am Yeoul, a small model."), ("What is your name?", "My name is Yeoul."),
           ("I like {food}.", "{Food} is a good choice!"), ("My pet is a {pet}.", "A {pet} is a lovely pet!"),
           ("I live in {city}.", "{city} is a nice place to live."), ("I work as a {job}.", "Being a {job} is fine work."),
           ("My favorite color is {color}.", "{Color} is a beautiful color."),
           ("I play {sport} on {day}.", "Enjoy {sport} on {day}!"), ("Thank you!", "You are welcome!"),
           ("Goodbye!", "Goodbye! See you soon."), ("What can you do?", "I can talk, count, remember and use tools."),
           ("I ate {food} in {city}.", "I hope the {food} in {city} was good."),
           ("Give me a sentence with {pet} and {color}.", "The {pet} sleeps on a {color} blanket.")],
    "ko": [("안녕!", "안녕하세요! 무엇을 도와드릴까요?"), ("안녕, 나는 {name}야.", "반가워요, {name} 님!"),
           ("좋은 아침, 내 이름은 {name}.", "좋은 아침이에요, {name} 님! 무엇을 도와드릴까요?"),
           ("너는 누구야?", "저는 작은 모델 여울이에요."), ("이름이 뭐야?", "제 이름은 여울이에요."),
           ("나는 {음식} 좋아해.", "{음식} 맛있죠!"), ("내 동물은 {동물}.", "{동물} 정말 귀엽죠!"),
           ("나는 {도시} 살아.", "{도시} 살기 좋은 곳이에요."), ("내 직업은 {직업}.", "{직업} 멋진 일이에요."),
           ("내가 좋아하는 색깔은 {색깔}.", "{색깔} 예쁜 색이에요."),
           ("{요일}에 {운동} 해.", "{요일}에 {운동} 즐겁게 하세요!"), ("고마워!", "천만에요!"),
           ("잘 가!", "안녕히 가세요! 또 만나요."), ("뭘 할 수 있어?", "이야기하고, 세고, 기억하고, 도구를 쓸 수 있어요."),
           ("{도시}에서 {음식} 먹었어.", "{도시}의 {음식} 맛있었기를 바라요."),
           ("{동물} {색깔} 넣어서 문장 만들어 줘.", "{동물} 옆에 {색깔} 담요가 있어요.")],
}


def slots_of(language, template):
    return [slot for slot in ("name", *words.FACTS[language]) if "{" + slot + "}" in template]


def words_for(rng, split, language, slot):
    """What a slot may take: now and then, in training, words of another kind. A kind has a dozen words, so that
    without these an answer is sooner learnt by heart than copied, and a held-out word is answered with another."""
    kinds = dict(words.FACTS[language], name=words.NAMES[language])
    swapped = split == "train" and rng.random() < SWAPPED_SHARE
    return kinds[rng.choice(list(kinds)) if swapped else slot]


def draw_turn(rng, split, language):
    def draw_filled():
        index = rng.randrange(len(TALK[language]))
        return (language, index, *(rng.choice(words_for(rng, split, language, slot))
                                   for slot in slots_of(language, TALK[language][index][0])))
    fixed = [turn for turn in TALK[language] if not slots_of(language, turn[0])]
    if rng.random() < len(fixed) / len(TALK[language]):
        return rng.choice(fixed)  # the same in both splits: there is nothing to hold out
    combination = choose(rng, split, lambda: next(c for c in iter(draw_filled, None) if len(c) > 2))
    question, answer = TALK[language][combination[1]]
    filled = dict(zip(slots_of(language, question), combination[2:]))
    filled |= {slot.capitalize(): value.capitalize() for slot, value in filled.items()}
    return question.format(**filled), answer.format(**filled)


def draw_talk(rng, split, language, budget):
    messages = [message("system", rng.choice(SYSTEM[language]))] if rng.random() < 0.5 else []
    for _ in range(rng.randint(1, max(1, min(4, budget // 30)))):
        question, answer = draw_turn(rng, split, language)
        messages += [message("user", question), message("assistant", answer)]
    return Document(f"dialogue_{language}", conversation(messages))


def draw_outside(rng, split):
    language = rng.choice(["en", "ko"])
    def combination():
        return language, rng.randrange(3), rng.choice(words.OUTSIDE[language])
    _, index, topic = choose(rng, split, combination)
    return Document("outside", conversation([
        message("user", ASK_OUTSIDE[language][index].format(topic)), message("assistant", ONLY_KNOWS[language])]))


def draw_json(rng, split):
    def shown():
        fields = {"age": rng.randint(5, 90)} | {
            key: rng.choice(words.FACTS["en"][key]) for key in ("city", "color", "pet")}
        keys = rng.sample(list(fields), rng.randint(1, 4))
        return (("name", rng.choice(words.NAMES["en"])), *((key, fields[key]) for key in keys))
    wanted = dict(choose(rng, split, shown))
    ask = "Give JSON: " + ", ".join(f"{key} {value}" for key, value in wanted.items())
    return Document("json", conversation([message("user", ask), message("assistant", json.dumps(wanted))]))


# kind -> (tokens the shortest document has, tokens of a usual one, None: what is asked for decides;
#          percent of the tokens in the early mix, the main mix, the late mix)
MIXES = ("early", "main", "late")
KINDS = {
    "dialogue_en": (20, 44, 5, 6, 4), "dialogue_ko": (20, 35, 5, 6, 7), "recall": (40, None, 54, 38, 14),
    "arithmetic_think": (45, 64, 14, 15, 20), "arithmetic_plain": (15, 30, 3, 2, 1), "copy": (12, 21, 3, 3, 2),
    "count": (25, 41, 2, 3, 3), "json": (30, 41, 2, 4, 3), "outside": (16, 20, 2, 1, 1),
    "tools_1": (400, None, 6, 12, 18), "tools_2": (530, None, 4, 10, 27),
}


# Where thinking is on (clients that say nothing ask for it) and no steps are needed, the reasoning
# is empty: <think></think>. Sums without steps are for questions without thinking.
THINKING_SHARE = {"arithmetic_plain": 0}  # of the documents of a kind; the others 0.3


def draw_kind(rng, split, kind, budget):
    if kind == "recall":
        return recall.draw(rng, split, budget)
    if kind.startswith("dialogue_"):
        return draw_talk(rng, split, kind.removeprefix("dialogue_"), budget)
    if kind.startswith("arithmetic_"):
        return sums.draw_arithmetic(rng, split, kind == "arithmetic_think")
    if kind.startswith("tools_"):
        return tool_calls.draw(rng, split, int(kind[-1]), budget)
    if kind == "copy":
        return sums.draw_copy(rng, split, words.single_tokens())
    return {"count": sums.draw_count, "json": draw_json, "outside": draw_outside}[kind](rng, split)


def draw(rng, split, length, mix="main"):
    """One document for rows of `length` tokens. Long kinds are drawn less often than short ones, so
    that the percentages are shares of the tokens."""
    budget = int(length * rng.uniform(0.4, 1))
    fitting = [kind for kind, (least, *_) in KINDS.items() if least <= length]
    share = 2 + MIXES.index(mix)
    weights = [KINDS[kind][share] / (KINDS[kind][1] or max(KINDS[kind][0], 0.75 * budget)) for kind in fitting]
    document = draw_kind(rng, split, rng.choices(fitting, weights)[0], budget)
    if not document.conversation["effort"] and rng.random() < THINKING_SHARE.get(document.kind, 0.3):
        document.conversation["effort"] = rng.choice([50, 75, 100])  # with nothing to think about
    return document
