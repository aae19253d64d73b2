() => {
  const one = document.activeElement;
  if (!one || one === document.body) return null;
  const style = getComputedStyle(one);
  return {
    tag: one.tagName.toLowerCase(),
    text: one.getAttribute("aria-label") || one.innerText || "",
    isOurs: Boolean(one.closest("#hiveacid-page")),
    isSeen: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2
      && style.outlineColor !== "rgba(0, 0, 0, 0)",
  };
}
