# ruff: noqa: E501 - a table of texts
"""Traces of a small RAG application in which one known stage is broken, for measuring who finds it.

The generator knows only which passage answers a question and what a stage does when it breaks. It takes no words,
thresholds or functions from the finder; answers are written out in words of their own, not copied from passages.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from groundwatch_collector.ragtrace import Document, Outcome, RagTrace


@dataclass(frozen=True)
class Fact:
    question: str
    passage: str
    right: str  # a correct answer in other words
    wrong: str  # an answer that the passage contradicts
    rewrite: str  # the question as a rewriter would put it


ENGLISH = (
    Fact(
        "How long is the warranty on a Norda kettle?",
        "Every Norda kettle comes with a warranty of 24 months. The warranty starts on the day of purchase and covers the heating element.",
        "Your kettle is under warranty for 24 months from the day of purchase.",
        "Your kettle is under warranty for 60 months from the day of purchase.",
        "Norda kettle warranty duration",
    ),
    Fact(
        "What does parking at the river garage cost per hour?",
        "The river garage charges 2.40 euros per hour for parking. Monthly tickets are sold at the counter on level one.",
        "Parking in the river garage is 2.40 euros per hour.",
        "Parking in the river garage is 7.90 euros per hour.",
        "river garage parking price hour",
    ),
    Fact(
        "Until when can I cancel a ferry booking?",
        "A ferry booking can be cancelled free of charge until 48 hours before departure. Later cancellations cost half of the fare.",
        "You can cancel the ferry booking free of charge until 48 hours before departure.",
        "You can cancel the ferry booking free of charge until 6 hours before departure.",
        "cancel ferry booking deadline",
    ),
    Fact(
        "How many guests may use one sauna pass?",
        "One sauna pass admits up to 4 guests on the same day. Towels are handed out at the entrance.",
        "A sauna pass admits up to 4 guests on the same day.",
        "A sauna pass admits up to 11 guests on the same day.",
        "sauna pass number of guests",
    ),
    Fact(
        "Which temperature does the vaccine freezer hold?",
        "The vaccine freezer holds a temperature of minus 70 degrees. An alarm rings when the door stays open.",
        "The temperature in the vaccine freezer is minus 70 degrees.",
        "The temperature in the vaccine freezer is minus 15 degrees.",
        "vaccine freezer temperature",
    ),
    Fact(
        "When does the municipal library close on Fridays?",
        "The municipal library closes at 21:30 on Fridays. Returns are possible at any time through the book slot.",
        "On Fridays the municipal library closes at 21:30.",
        "On Fridays the municipal library closes at 17:00.",
        "municipal library closing time Friday",
    ),
    Fact(
        "How large may a photo for the visa form be?",
        "A photo for the visa form may be at most 3 MB large. Accepted formats are JPEG and PNG.",
        "The visa form accepts a photo of at most 3 MB.",
        "The visa form accepts a photo of at most 45 MB.",
        "visa form photo size limit",
    ),
    Fact(
        "How often must the lift be inspected?",
        "The lift must be inspected every 18 months by a certified engineer. The report is kept in the machine room.",
        "A certified engineer must inspect the lift every 18 months.",
        "A certified engineer must inspect the lift every 40 months.",
        "lift inspection interval",
    ),
    Fact(
        "What is the notice period for a storage unit?",
        "The notice period for a storage unit is 14 days to the end of a month. The deposit is returned by bank transfer.",
        "The notice period of your storage unit is 14 days to the end of a month.",
        "The notice period of your storage unit is 90 days to the end of a month.",
        "storage unit notice period",
    ),
    Fact(
        "How much luggage is allowed on the night train?",
        "On the night train each passenger is allowed 2 pieces of luggage of 30 kg. Bicycles need a reservation.",
        "Each passenger on the night train is allowed luggage of 30 kg.",
        "Each passenger on the night train is allowed luggage of 85 kg.",
        "night train luggage allowance",
    ),
    Fact(
        "Who repairs the street lamps in Elmford?",
        "Street lamps in Elmford are repaired by the Halden company within 5 working days. Damage is reported by phone.",
        "The Halden company repairs the street lamps in Elmford within 5 working days.",
        "The Halden company repairs the street lamps in Elmford within 33 working days.",
        "Elmford street lamps repair",
    ),
    Fact(
        "How many credits does the pottery course give?",
        "The pottery course gives 6 credits after the final exhibition. Clay is included in the fee.",
        "You get 6 credits for the pottery course after the final exhibition.",
        "You get 19 credits for the pottery course after the final exhibition.",
        "pottery course credits",
    ),
    Fact(
        "How many plots does the allotment garden rent out?",
        "The allotment garden rents out 52 plots of equal size. Water is switched off in winter.",
        "There are 52 plots that the allotment garden rents out.",
        "There are 130 plots that the allotment garden rents out.",
        "allotment garden plots rented",
    ),
    Fact(
        "By which day must the choir fee be paid?",
        "The choir fee must be paid by the 12th day of each quarter. Members under 18 sing for free.",
        "You must pay the choir fee by the 12th day of the quarter.",
        "You must pay the choir fee by the 27th day of the quarter.",
        "choir fee payment day",
    ),
    Fact(
        "What range does the e-bike battery have?",
        "The battery of the e-bike has a range of 85 kilometres in eco mode. Charging takes 4 hours.",
        "In eco mode the e-bike battery has a range of 85 kilometres.",
        "In eco mode the e-bike battery has a range of 240 kilometres.",
        "e-bike battery range",
    ),
    Fact(
        "How tall may a garden fence be in Wessing?",
        "In Wessing a garden fence may be 1.6 metres tall without a permit. Hedges are exempt.",
        "Without a permit, a garden fence in Wessing may be 1.6 metres tall.",
        "Without a permit, a garden fence in Wessing may be 3.2 metres tall.",
        "Wessing garden fence height",
    ),
)
CHINESE = (
    Fact(
        "诺达水壶的保修期有多长？",
        "每只诺达水壶的保修期为24个月。保修期从购买当日算起，涵盖加热元件。",
        "诺达水壶从购买当日算起保修24个月。",
        "诺达水壶从购买当日算起保修60个月。",
        "诺达水壶保修期",
    ),
    Fact(
        "河滨停车场每小时收费多少？",
        "河滨停车场每小时收费12元。月票在一层服务台出售。",
        "在河滨停车场停车，每小时收费12元。",
        "在河滨停车场停车，每小时收费38元。",
        "河滨停车场每小时收费",
    ),
    Fact(
        "渡轮订单最晚什么时候可以取消？",
        "渡轮订单可在出发前48小时免费取消。更晚取消将收取一半票款。",
        "渡轮订单在出发前48小时可以免费取消。",
        "渡轮订单在出发前6小时可以免费取消。",
        "渡轮订单取消时限",
    ),
    Fact(
        "一张桑拿通票可供几位客人使用？",
        "一张桑拿通票可供4位客人当日使用。毛巾在入口处领取。",
        "桑拿通票可供4位客人当日使用。",
        "桑拿通票可供11位客人当日使用。",
        "桑拿通票客人数量",
    ),
    Fact(
        "疫苗冷柜保持在什么温度？",
        "疫苗冷柜的温度保持在零下70度。柜门未关时会响起警报。",
        "疫苗冷柜保持零下70度的温度。",
        "疫苗冷柜保持零下15度的温度。",
        "疫苗冷柜温度",
    ),
    Fact(
        "市立图书馆周五几点闭馆？",
        "市立图书馆周五21:30闭馆。还书箱全天开放。",
        "周五市立图书馆21:30闭馆。",
        "周五市立图书馆17:00闭馆。",
        "市立图书馆周五闭馆时间",
    ),
    Fact(
        "签证表格的照片最大可以多大？",
        "签证表格的照片最大为3MB。可接受JPEG和PNG格式。",
        "签证表格照片最大3MB。",
        "签证表格照片最大45MB。",
        "签证表格照片大小",
    ),
    Fact(
        "电梯多久需要检验一次？",
        "电梯须由持证工程师每18个月检验一次。检验报告存放在机房。",
        "持证工程师须每18个月检验一次电梯。",
        "持证工程师须每40个月检验一次电梯。",
        "电梯检验周期",
    ),
    Fact(
        "仓储单元退租需要提前多少天通知？",
        "仓储单元退租须提前14天书面通知。押金通过银行转账退还。",
        "仓储单元退租要提前14天书面通知。",
        "仓储单元退租要提前90天书面通知。",
        "仓储单元退租通知",
    ),
    Fact(
        "夜间列车允许携带多少公斤行李？",
        "夜间列车每位乘客允许携带30公斤行李。自行车需要预订。",
        "乘坐夜间列车的乘客允许携带30公斤行李。",
        "乘坐夜间列车的乘客允许携带85公斤行李。",
        "夜间列车行李重量",
    ),
    Fact(
        "榆镇的路灯由谁维修？",
        "榆镇的路灯由哈登公司在5个工作日内维修。损坏请电话报告。",
        "哈登公司在5个工作日内维修榆镇的路灯。",
        "哈登公司在33个工作日内维修榆镇的路灯。",
        "榆镇路灯维修",
    ),
    Fact(
        "陶艺课程有多少学分？",
        "陶艺课程在结业展览后给予6个学分。费用已包含陶土。",
        "陶艺课程在结业展览后有6个学分。",
        "陶艺课程在结业展览后有19个学分。",
        "陶艺课程学分",
    ),
    Fact(
        "社区菜园出租多少块地？",
        "社区菜园出租52块大小相同的菜地。冬季停止供水。",
        "社区菜园共有52块菜地出租。",
        "社区菜园共有130块菜地出租。",
        "社区菜园出租地块",
    ),
    Fact(
        "合唱团团费最晚几号缴纳？",
        "合唱团团费须在每季度首月12号前缴纳。未满18岁的成员免费。",
        "合唱团团费要在每季度首月12号之前缴纳。",
        "合唱团团费要在每季度首月27号之前缴纳。",
        "合唱团团费缴纳日期",
    ),
    Fact(
        "电动自行车电池的续航是多少？",
        "电动自行车电池在节能模式下续航85公里。充电需要4小时。",
        "节能模式下电动自行车电池可续航85公里。",
        "节能模式下电动自行车电池可续航240公里。",
        "电动自行车电池续航",
    ),
    Fact(
        "韦辛的花园围栏最高可以多高？",
        "韦辛的花园围栏无需许可最高可达1.6米。绿篱不受限制。",
        "在韦辛，花园围栏无需许可最高1.6米。",
        "在韦辛，花园围栏无需许可最高3.2米。",
        "韦辛花园围栏高度",
    ),
)
DECLINING = {
    "en": (
        "I'm sorry, I could not find that in the documents.",
        "The provided documents do not say anything about this, so I cannot answer.",
    ),
    "zh": ("很抱歉，提供的资料中没有找到相关信息。", "根据现有文档无法回答这个问题。"),
}
SEEN = 12  # facts of a language that were in view when the finder was last changed; the others were not
LAYERS = ("execution", "rewrite", "retrieval", "rerank", "context", "generation", "refusal")


@dataclass(frozen=True)
class Case:
    language: str
    layer: str
    seen: bool  # whether its fact was in view when the finder was last changed
    trace: RagTrace


def cases(seed: int = 7) -> Iterator[Case]:
    """Every fact of both languages under every broken stage, in two manners each: 448 traces."""
    rng = random.Random(seed)
    for language, facts in (("en", ENGLISH), ("zh", CHINESE)):
        for index in range(len(facts)):
            for layer in LAYERS:
                for manner in (0, 1):
                    yield Case(language, layer, index < SEEN, _trace(rng, language, facts, index, layer, manner))


def _trace(
    rng: random.Random, language: str, facts: tuple[Fact, ...], index: int, layer: str, manner: int
) -> RagTrace:
    fact = facts[index]
    others = rng.sample([i for i in range(len(facts)) if i != index], 5)
    lost = layer in ("rewrite", "retrieval")
    found = others if lost else [*others[:4], index]
    rng.shuffle(found)
    kept = [i for i in found if not (layer == "rerank" and i == index)]
    sent = [i for i in kept if not (layer == "context" and i == index)][:4]
    if layer not in ("rewrite", "retrieval", "rerank", "context") and index not in sent:
        sent[-1] = index
    failed = (Outcome.ERROR, Outcome.TIMEOUT)[manner]
    return RagTrace(
        trace_id=f"{language}-{index}-{layer}-{manner}",
        app="made-up",
        version="1",
        started_at=0.0,
        duration_seconds=1.0,
        outcome=failed if layer == "execution" else Outcome.ANSWERED,
        outcome_source="recorded",
        query=fact.question,
        rewritten_query=facts[others[0]].rewrite if layer == "rewrite" else fact.rewrite,
        candidates=_documents(facts, found),
        reranked=_documents(facts, kept),
        context=_documents(facts, sent),
        answer=_answer(rng, language, fact, facts[others[0]], layer, manner),
    )


def _documents(facts: tuple[Fact, ...], which: list[int]) -> tuple[Document, ...]:
    return tuple(Document(f"p{i}", rank, text=facts[i].passage) for rank, i in enumerate(which, 1))


def _answer(rng: random.Random, language: str, fact: Fact, other: Fact, layer: str, manner: int) -> str | None:
    """What a model writes then: without the passage it invents or, in the second manner, is off topic or declines."""
    if layer == "execution":
        return None
    if layer == "refusal" or (layer in ("rerank", "context") and manner):
        return rng.choice(DECLINING[language])
    if layer == "rewrite":
        return other.right if manner else fact.wrong
    return fact.wrong
