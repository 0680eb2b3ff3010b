"""Orders of a small shop: what is in them, what they cost, and when they are sent."""

import csv
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path

FREE_SHIPPING_FROM = 50.0
DISCOUNT_STEPS = ((500.0, 0.10), (200.0, 0.05), (100.0, 0.02))
LOYALTY_BONUS = 0.01


@dataclass
class Item:
    """One line of an order."""

    sku: str
    title: str
    price: float
    quantity: int = 1

    def total(self) -> float:
        return self.price * self.quantity


@dataclass
class Customer:
    name: str
    email: str
    since: date
    address: str = ""

    def is_loyal(self, today: date) -> bool:
        return today - self.since > timedelta(days=365)


@dataclass
class Order:
    number: int
    customer: Customer
    items: list[Item] = field(default_factory=list)
    placed: date = field(default_factory=date.today)
    is_paid: bool = False
    is_sent: bool = False

    def add(self, item: Item) -> None:
        for known in self.items:
            if known.sku == item.sku:
                known.quantity += item.quantity
                return
        self.items.append(item)

    def remove(self, sku: str) -> None:
        self.items = [item for item in self.items if item.sku != sku]

    def subtotal(self) -> float:
        return sum(item.total() for item in self.items)

    def discount_rate(self) -> float:
        """The share of the subtotal that is taken off: by its size, and for loyal customers."""
        subtotal = self.subtotal()
        rate = next((share for least, share in DISCOUNT_STEPS if subtotal >= least), 0.0)
        if self.customer.is_loyal(self.placed):
            rate += LOYALTY_BONUS
        return rate

    def discount(self) -> float:
        return round(self.subtotal() * self.discount_rate(), 2)

    def shipping(self) -> float:
        if self.subtotal() >= FREE_SHIPPING_FROM:
            return 0.0
        return 4.90

    def total(self) -> float:
        return self.subtotal() - self.discount() + self.shipping()


class Warehouse:
    """What lies on the shelves."""

    def __init__(self) -> None:
        self._stock: dict[str, int] = {}

    def receive(self, sku: str, quantity: int) -> None:
        self._stock[sku] = self._stock.get(sku, 0) + quantity

    def has(self, item: Item) -> bool:
        return self._stock.get(item.sku, 0) >= item.quantity

    def pick(self, order: Order) -> list[Item]:
        missing = [item for item in order.items if not self.has(item)]
        if missing:
            return missing
        for item in order.items:
            self._stock[item.sku] -= item.quantity
        return []


def send(order: Order, warehouse: Warehouse) -> bool:
    """Send what is paid for and in stock. False if it has to wait."""
    if not order.is_paid or order.is_sent:
        return False
    if warehouse.pick(order):
        return False
    order.is_sent = True
    return True


def read_orders(path: Path, customers: dict[str, Customer]) -> list[Order]:
    """Orders from a file with one item in each line."""
    orders: dict[int, Order] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            number = int(row["order"])
            customer = customers[row["email"]]
            order = orders.setdefault(number, Order(number, customer))
            order.add(Item(row["sku"], row["title"], float(row["price"]), int(row["quantity"])))
    return list(orders.values())


def report(orders: list[Order]) -> str:
    """One line an order, for people."""
    lines = []
    for order in sorted(orders, key=lambda each: each.number):
        state = "sent" if order.is_sent else "paid" if order.is_paid else "open"
        lines.append(f"{order.number:6} {order.customer.name:20} {order.total():10.2f} {state}")
    return "\n".join(lines)
