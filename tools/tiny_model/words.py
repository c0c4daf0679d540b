"""The small world that the model is taught: who and what it talks about, in two languages.

Names, attributes and values are single tokens of the tokenizer, with and without a space before
them (tokenizer_training.py sees to it, words_test.py checks it).
"""

NAMES = {
    "en": "Anna Ben Clara David Emma Frank Grace Henry Iris Jack Kate Liam Mia Noah Olive Paul Quinn "
          "Rosa Sam Tina Uma Victor Wendy Xavier Yara Zoe Adam Bella Carl Dora Eric Fiona".split(),
    "ko": "민수 지영 서준 하은 도윤 수아 예준 지우 시우 서연 주원 하린 건우 유진 현우 소율 준호 나은 태민 가은 "
          "동현 은지 성민 보라 재원 다인 승우 혜진".split(),
}

# attribute -> values
FACTS = {
    "en": {
        "color": "red blue green black white pink gray brown gold silver purple orange".split(),
        "city": "Rome Paris Seoul Tokyo Berlin London Madrid Oslo Cairo Lima Delhi Dublin Vienna Prague".split(),
        "pet": "cat dog bird fish horse rabbit turtle mouse duck goat snake frog".split(),
        "food": "bread rice soup pizza salad cheese apple noodles cake curry tofu honey".split(),
        "job": "teacher doctor baker pilot singer farmer painter driver nurse lawyer writer cook".split(),
        "day": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split(),
        "sport": "tennis soccer golf boxing rugby hockey skiing yoga".split(),
    },
    "ko": {
        "색깔": "빨강 파랑 초록 검정 하양 분홍 회색 갈색 금색 은색 보라색 주황".split(),
        "도시": "서울 부산 대구 인천 광주 대전 울산 수원 제주 강릉 전주 포항 춘천 여수".split(),
        "동물": "고양이 강아지 토끼 거북이 참새 금붕어 말 염소 오리 다람쥐 햄스터 여우".split(),
        "음식": "김밥 비빔밥 냉면 라면 만두 떡볶이 불고기 된장국 국수 사과 수박 두부".split(),
        "직업": "교사 의사 제빵사 조종사 가수 농부 화가 기사 간호사 변호사 작가 요리사".split(),
        "요일": "월요일 화요일 수요일 목요일 금요일 토요일 일요일".split(),
        "운동": "축구 야구 농구 배구 탁구 수영 골프 태권도".split(),
    },
}

ITEMS = ("lamp chair table clock mirror pillow carpet basket bottle candle ladder hammer kettle blanket umbrella wallet "
         "backpack guitar camera helmet shovel bucket vase towel scarf jacket notebook pencil ruler kite").split()
SONGS = ("Sunrise Rainfall Moonlight Harbor Winter Garden Thunder Meadow River Candle Autumn Lantern Island Echo Horizon "
         "Snowfall Firefly Orchard Canyon Tide Comet Willow Ember Mirage Breeze").split()
ROOMS = "kitchen bedroom bathroom garage hallway office attic cellar library pantry balcony lobby nursery studio".split()
CURRENCIES = "dollars euros won yen pounds francs".split()
WEATHERS = "sunny cloudy rainy windy snowy foggy".split()
WEATHERS_KO = {"sunny": "맑음", "cloudy": "흐림", "rainy": "비", "windy": "바람", "snowy": "눈", "foggy": "안개"}
CITIES_KO = {"Seoul": "서울", "Rome": "로마", "Paris": "파리", "Tokyo": "도쿄", "Berlin": "베를린", "London": "런던",
             "Madrid": "마드리드", "Oslo": "오슬로", "Cairo": "카이로", "Lima": "리마", "Delhi": "델리",
             "Dublin": "더블린", "Vienna": "빈", "Prague": "프라하"}

OUTSIDE = {
    "en": "the moon,black holes,the stock market,quantum physics,the last election,ancient Egypt,"
          "tax law,vaccines,the deepest ocean,jet engines,chess openings,the Roman empire,volcanoes,"
          "neural networks,world records,the speed of light".split(","),
    "ko": "달,블랙홀,주식 시장,양자 물리,지난 선거,고대 이집트,세금,백신,깊은 바다,제트 엔진,체스,로마 제국,화산,"
          "신경망,세계 기록,빛의 속도".split(","),
}


def single_tokens():
    """Every word that must be one token."""
    words = []
    for language in ("en", "ko"):
        words += NAMES[language]
        for attribute, values in FACTS[language].items():
            words += [attribute, *values]
    return words + ITEMS + SONGS + ROOMS + CURRENCIES + WEATHERS
