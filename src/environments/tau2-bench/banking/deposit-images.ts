// Scans of deposits that the reference holds for three transactions. A tool prints them byte for byte.

type Scan = {
  readonly atm: string;
  /** Lines between the heading and the contents. */
  readonly envelope: readonly string[];
  readonly check: readonly string[];
  /** Cash and lines on quality; `null` for a scan without them. */
  readonly cash: { readonly lines: readonly string[]; readonly quality: readonly string[] } | null;
  readonly summary: readonly string[];
  readonly record: readonly string[];
  readonly notes: string;
};

const discrepancy = {
  cash: [
    "  - Denomination breakdown:",
    "    * 2 x $100 bills = $200.00",
    "    * 3 x $20 bills = $60.00",
    "  - Total Cash: $260.00",
  ],
  summary: ["Check Total: $875.00", "Cash Total: $260.00", "GRAND TOTAL: $1,135.00"],
  record: ["Amount Recorded by ATM: $385.00", "DISCREPANCY DETECTED: $750.00 difference"],
  notes:
    "Images clearly show deposit contents totaling $1,135.00. ATM machine recorded only $385.00. Discrepancy of $750.00 confirmed via image review.",
};

/** The scan of a deposit of which the machine recorded less than its contents. */
function discrepancyScan(scan: {
  readonly envelope: readonly string[];
  readonly check: readonly [number: string, bank: string];
  readonly payee: string;
  readonly date: string;
}): Scan {
  const { envelope, check, payee, date } = scan;
  const [number, bank] = check;
  return {
    atm: "ATM #3921",
    envelope,
    check: [
      `  - Check Number: ${number}`,
      `  - Drawn On: ${bank}`,
      `  - Payee: ${payee}`,
      "  - Amount: $875.00",
      '  - Memo: "October rent refund"',
      "  - Signature: Present and legible",
      `  - Date on Check: ${date}`,
    ],
    cash: {
      lines: discrepancy.cash,
      quality: [
        "Envelope scan: CLEAR",
        "Check front: CLEAR",
        `Check back (endorsement): CLEAR - endorsed "For Deposit Only - ${payee}"`,
        "Cash image: CLEAR - bills visible and countable",
      ],
    },
    summary: discrepancy.summary,
    record: discrepancy.record,
    notes: discrepancy.notes,
  };
}

const scans: ReadonlyMap<string, Scan> = new Map<string, Scan>([
  [
    "btxn_834027370c20",
    discrepancyScan({
      envelope: [
        "Envelope ID: ENV-2025-3921-00923",
        "Deposit Time: 3:47 PM CST",
        "ATM Location: Rho-Bank ATM #3921, Cedar Lane Branch, Austin, TX",
      ],
      check: ["7284", "First Texas Bank"],
      payee: "Derek Yamamoto",
      date: "11/03/2025",
    }),
  ],
  [
    "btxn_test_deposit_001",
    discrepancyScan({
      envelope: [
        "Envelope ID: ENV-2025-3921-00847",
        "Deposit Time: 2:34 PM EST",
        "ATM Location: Rho-Bank ATM #3921, 742 Oak Avenue, Portland, OR",
      ],
      check: ["4821", "First National Bank"],
      payee: "Linda Patterson",
      date: "11/05/2025",
    }),
  ],
  [
    "btxn_test_atm_dep_partial",
    {
      atm: "ATM #5847",
      envelope: ["Envelope ID: ENV-2025-5847-00293", "Deposit Time: 10:15 AM EST"],
      check: ["  - Check Number: 7392", "  - Amount: $500.00"],
      cash: null,
      summary: ["Check Total: $500.00", "Cash Total: $0.00", "GRAND TOTAL: $500.00"],
      record: ["Amount Recorded by ATM: $500.00", "No discrepancy detected."],
      notes: "Images confirm deposit matches recorded amount. No discrepancy found.",
    },
  ],
]);

/** The images of a deposit as the tool prints them; `null` if there are none. */
export function depositImages(id: string, date: string): string | null {
  const scan = scans.get(id);
  if (scan === undefined) return null;
  const { atm, envelope, check, cash, summary, record, notes } = scan;
  const lines = [
    "ATM Deposit Image Retrieval Results",
    "=====================================",
    `Transaction ID: ${id}`,
    `ATM: ${atm}`,
    `Deposit Date: ${date}`,
    "",
    "",
    "=== ATM DEPOSIT ENVELOPE SCAN ===",
    ...envelope,
    "",
    "--- ENVELOPE CONTENTS ---",
    "Item 1: Personal Check",
    ...check,
    "",
    ...(cash === null ? [] : ["Item 2: Cash", ...cash.lines, ""]),
    "--- DEPOSIT SUMMARY ---",
    ...summary,
    "",
    "--- MACHINE RECORD ---",
    ...record,
    ...(cash === null ? [] : ["", "--- IMAGE QUALITY ---", ...cash.quality]),
    "",
    "",
    "--- VERIFICATION NOTES ---",
    notes,
    "",
  ];
  return lines.join("\n");
}
