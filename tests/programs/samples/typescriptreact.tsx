import { useState } from "react";

/** A list with a button. */
export function List({ items }: { items: string[] }) {
  const [open, setOpen] = useState(false);
  return (
    <div className="list">
      <button onClick={() => setOpen(!open)}>{open ? "hide" : "show"}</button>
      {open && items.map((item) => <p key={item}>{item}</p>)}
    </div>
  );
}
