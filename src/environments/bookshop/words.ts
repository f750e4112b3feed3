// The word lists of the shop: names, titles, streets and the members' asides. A catalogue;
// combinations of its entries are split between train and test in `world.ts`, so order and length
// of the lists decide the contents of each task.

export const firstNames = words(
  "Ada Anna Ben Clara David Emma Felix Grace Hugo Iris James Kate Leo Mia Nora Oscar Paul Quinn Rosa Sam Tom Uma Victor Wendy",
);
export const lastNames = words(
  "Ashdown Bell Carter Dahl Evans Finch Gray Hall Ito Jones Kent Lund Moss North Owens Page Quill Reed Smith Taylor Usher Vance Wood York",
);
export const titleOpenings = words(
  "Salt Paper Glass Silver Winter Quiet Crooked Borrowed Second Hollow Velvet Burning Clever Distant Early Feathered Green Hungry Iron Jealous Lost Midnight Narrow Painted",
);
export const titleEndings = words(
  "Moon Fox Clock Garden Lighthouse Orchard Piano River Station Thief Umbrella Violin Whale Baker Castle Desk Engine Ferry Ghost Harbour Island Key Lantern Mirror",
);
export const streetNames = words(
  "Elm Mill Lake Park Church Castle Bridge Market River Garden Heron Linden Maple North Orchard Poplar Quarry Rose Swan Tanner",
);
export const streetKinds = words("Road Lane Street Square Hill Row");

/** Wishes that only the owner can grant. */
export const ownerWishes = lines(`
  sell you my old atlases
  read my poems in your window
  hang a poster in the shop
  rent the cellar for my chess club
  borrow the owl for a party
  work at the till
  meet the author of my favourite novel
  bring my school class
`);
export const ownerTimes = lines(`
  this Friday
  before winter
  in March
  on Sunday evening
  for my aunt
  for one week
  next month
  as a surprise
`);
/** Wishes that sound as if the till had a tool for them, but it has none. */
export const nearMisses = lines(`
  gift wrap
  put a bookmark into
  add a birthday card to
  use a drone for
  spray perfume on
  hide a love letter in
  ring twice when you deliver
  read the first page aloud before you send
`);

/** A member's reasons for its wish, by kind of task. */
export const asides: Readonly<Record<string, readonly string[]>> = {
  question: lines(`
    My book club meets soon.
    My cat asks every morning.
    I have cleared a shelf for it.
    I ask for a friend. The friend is me.
    I have told everybody about it.
    My tea is getting cold.
  `),
  cancel: lines(`
    My sister gave me the same book.
    The library has it after all.
    A friend told me the ending.
    My shelf has come off the wall.
    My aunt says it is not for me.
    I have to finish the last one first.
  `),
  address: lines(`
    We have moved, cats and all.
    My neighbour reads my parcels.
    It shall be a surprise for my aunt.
    The dog here eats parcels.
    I am hiding from my book club.
    My old street has too many hills.
  `),
  return: lines(`
    The ending made me cross.
    It is too scary for my uncle.
    I turned the last page and felt nothing.
    The hero has my name and no manners.
    It kept me awake all night.
    Too many ghosts, not enough cake.
  `),
  swap: lines(`
    My bag is hard on books.
    My eyes are not what they were.
    It has to survive my bath.
    It shall look good on the shelf.
    I fall asleep when I read in bed.
    My uncle has the same one.
  `),
  top_up: lines(`
    My niece reads faster than I can pay.
    I do not trust myself with cash.
    It is my birthday, after all.
    Winter is long.
    My aunt reads by the kilo.
    I have lost a bet.
  `),
  owner: lines(`
    The owl would love it.
    I promise to be quiet.
    I have dreamt of it for years.
    It will not take long.
    My mother says I should ask.
    I will bring cake.
  `),
};

export const greetings = lines(`
  Hello!
  Hi there.
  Good morning.
  Good evening, dear night desk.
`);
export const farewells = lines(`
  No, that is all. My regards to the owl!
  That is everything, thank you.
  No, thank you. Back to my book.
  That is all. Good night!
`);
export const objections = lines(`
  Not even for an old reader?
  Can you not make an exception?
  Not even if I ask the owl nicely?
`);

function words(text: string): readonly string[] {
  return text.split(" ");
}

function lines(text: string): readonly string[] {
  return text.trim().split(/\n\s*/);
}
