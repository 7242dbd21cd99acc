"""Order, account and customer numbers: no checksum, so the word in front decides."""

from __future__ import annotations

import re
from typing import Final

from groundwatch_review.redaction.rules import LEFT, RIGHT, Rule, by_rules, id_like

_EN_LINK: Final = r"(?:[ _\-]?(?i:no|nr|number|num|id|code|ref))?[.:=\s\"'(]{0,4}(?:(?i:is|was)\s)?"
_EN_VALUE: Final = r"(#?[A-Za-z]{0,6}[\-_]?[0-9][A-Za-z0-9\-]{3,30})(?![A-Za-z0-9])"
_ZH_LINK: Final = r"(?:编号|号码|单号|号|(?i:id))?[是为:\s#\"]{0,3}"
_ZH_VALUE: Final = r"([A-Za-z]{0,6}[\-_]?[0-9][A-Za-z0-9\-]{3,30})"
_UUID: Final = r"([0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12})"

_ORDERS: Final = (
    Rule("ORDER_ID", re.compile(r"(?<![A-Za-z0-9\-])[0-9]{3}-[0-9]{7}-[0-9]{7}(?![A-Za-z0-9\-])")),  # Amazon
    Rule("ORDER_ID", re.compile(LEFT + r"(?:SF|JD|YT|ZTO|STO|EMS|JT|DD)[A-Z]{0,2}[0-9]{10,16}" + RIGHT)),  # couriers
    Rule("ORDER_ID", re.compile(LEFT + r"1Z[0-9A-Z]{16}" + RIGHT)),  # UPS
    Rule("ORDER_ID", re.compile(LEFT + r"(?:SO|PO|INV|ORD|RMA)-?[0-9]{4}-?[0-9]{4,10}" + RIGHT)),
    Rule(
        "ORDER_ID",
        re.compile(
            LEFT + r"(?i:order|tracking|parcel|shipment|invoice|booking|reservation|waybill|transaction|ticket)"
            rf"(?![a-z]){_EN_LINK}{_EN_VALUE}"
        ),
        group=1,
        accepts=id_like,
    ),
    Rule(
        "ORDER_ID",
        re.compile(rf"(?:订单|单号|快递|运单|物流|包裹|流水号|交易号|工单|发票){_ZH_LINK}{_ZH_VALUE}"),
        view="folded",
        group=1,
        accepts=id_like,
    ),
)

_ACCOUNT_NUMBERS: Final = (
    Rule(
        "ACCOUNT_ID", re.compile(LEFT + r"(?:CUST|EMP|ACCT|ACC|MRN|POL|MEM|CLI)-?[0-9]{4}[0-9\-]{0,12}[0-9]" + RIGHT)
    ),
    Rule("ACCOUNT_ID", re.compile(LEFT + r"(?:acct|cus|sub|usr|user|cust)_[A-Za-z0-9]{10,40}" + RIGHT)),
    Rule(
        "ACCOUNT_ID",
        re.compile(
            LEFT
            + r"(?i:account|acct|customer|client|member(?:ship)?|policy|employee|badge|mrn|patient|contract|student|"
            rf"user|subscriber|loyalty|staff)(?![a-z]){_EN_LINK}{_EN_VALUE}"
        ),
        group=1,
        accepts=id_like,
    ),
    Rule(
        "ACCOUNT_ID",
        re.compile(
            r"(?i:user|account|customer|client|session|member|tenant|device)[_\- ]?(?i:id|uuid)?"
            rf"[\"']?[:=\s\"']{{1,4}}{_UUID}"
        ),
        group=1,
    ),
    Rule(
        "ACCOUNT_ID",
        re.compile(
            r"(?:客户|会员|账户|账号|帐号|户号|工号|员工|住院|病历|门诊|就诊|学|学籍|保单|合同|社保|医保|公积金|用户|档案)"
            rf"{_ZH_LINK}{_ZH_VALUE}"
        ),
        view="folded",
        group=1,
        accepts=id_like,
    ),
)

ORDERS: Final = by_rules("orders", "1", _ORDERS)
ACCOUNT_NUMBERS: Final = by_rules("account_numbers", "1", _ACCOUNT_NUMBERS)
