// The data of the shop as one episode sees it: a handful of records and what the desk has done. Copied for each episode,
// compared as text at the end. Knows nothing of rules: the till does what it is told.

export type Member = { readonly id: string; readonly name: string; readonly tier: "silver" | "gold" };

export const formats = ["paperback", "hardcover", "audio"] as const;
export type Format = (typeof formats)[number];

/** One edition of a title; editions of one title share nothing but its name. */
export type Edition = {
  readonly id: string;
  readonly title: string;
  readonly format: Format;
  /** Whole dollars. */
  readonly price: number;
  readonly isInStock: boolean;
};

export type OrderStatus = "pending" | "shipped" | "delivered" | "cancelled";

export type OrderedBook = {
  /** Id of the edition. */
  readonly edition: string;
  readonly isSigned: boolean;
  readonly isReturned: boolean;
};

export type Order = {
  readonly id: string;
  /** Id of the member. */
  readonly member: string;
  readonly status: OrderStatus;
  /** Until it leaves (pending) or arrives (shipped), since it was delivered; at least 2. */
  readonly days: number;
  readonly address: string;
  readonly books: readonly OrderedBook[];
};

export type Card = {
  readonly id: string;
  /** Id of the member. */
  readonly member: string;
  /** Whole dollars. */
  readonly balance: number;
};

/** The state of an episode. Records are replaced, never changed, so copies may share them. */
export type Shop = {
  readonly members: ReadonlyMap<string, Member>;
  readonly editions: ReadonlyMap<string, Edition>;
  readonly orders: Map<string, Order>;
  readonly cards: Map<string, Card>;
  /** `#W1042 rule 4`. */
  readonly declined: Set<string>;
  /** Members whose wish went to the owner. */
  readonly handedOver: Set<string>;
  /** `rule 3 by cancel_order`: the shop remembers how its changes came about. */
  readonly breaches: Set<string>;
};

export function copyShop(shop: Shop): Shop {
  return {
    members: shop.members,
    editions: shop.editions,
    orders: new Map(shop.orders),
    cards: new Map(shop.cards),
    declined: new Set(shop.declined),
    handedOver: new Set(shop.handedOver),
    breaches: new Set(shop.breaches),
  };
}

/** The data as text: equal states give equal texts, whatever the order in which they came about. */
export function shopText(shop: Shop): string {
  const byId = (records: Iterable<{ readonly id: string }>): readonly unknown[] =>
    [...records].sort((a, b) => (a.id < b.id ? -1 : 1));
  return JSON.stringify({
    members: byId(shop.members.values()),
    editions: byId(shop.editions.values()),
    orders: byId(shop.orders.values()),
    cards: byId(shop.cards.values()),
    declined: [...shop.declined].sort(),
    handedOver: [...shop.handedOver].sort(),
    breaches: [...shop.breaches].sort(),
  });
}

/** What the books of an order cost together, returned ones left out. */
export function orderTotal(shop: Shop, order: Order): number {
  let total = 0;
  for (const book of order.books) if (!book.isReturned) total += shop.editions.get(book.edition)?.price ?? 0;
  return total;
}
