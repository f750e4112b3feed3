// What an agenda-based user says by itself. Everything about its goals stands in the agenda.

export const phrases = {
  yes: ["Yes, please.", "Yes.", "Yes, go ahead.", "Yes, I confirm."],
  yesAgain: ["Yes, as I said.", "Still yes."],
  nothingToConfirm: ["No, nothing shall be changed.", "No, I only asked."],
  unknown: ["I do not know.", "I cannot tell you that.", "I am not sure what you mean."],
  waiting: ["And?", "I am waiting.", "Yes, and now?"],
  next: ["One more thing.", "While I am here:", "And another matter."],
  outOfPatience: ["I give up. Goodbye.", "This leads nowhere. Goodbye.", "I will come by in person. Goodbye."],
} as const satisfies Readonly<Record<string, readonly string[]>>;
