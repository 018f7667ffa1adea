"""An actor of one's own."""

from dataclasses import dataclass

import understudy as us
from tests.support.programs import Models

MODELS = Models({})


@dataclass(frozen=True)
class Quote:
    sku: str
    price: float


system = us.ActorSystem("market")
skus = ["A-113", "B-7"]

# The program:
@dataclass(frozen=True)
class PriceOf(us.Query[float | None]):
    sku: str

class PriceFeed(us.Actor[Quote | PriceOf]):
    def on_start(self) -> None:
        self.prices: dict[str, float] = {}

    def on_receive(self, message: Quote | PriceOf) -> object:
        match message:
            case Quote(sku, price):
                self.prices[sku] = price
                return None
            case PriceOf(sku):
                return self.prices.get(sku)

feed = system.spawn(PriceFeed, name="prices", mailbox=us.Mailbox(1000, when_full="block"))
feed.tell(Quote("A-113", 12.5))
price = feed.ask(PriceOf("A-113"), timeout=1.0)              # float | None
us.collect([feed.ask_future(PriceOf(s)) for s in skus]).result(timeout=1.0)      # collect and first take run handles too
