;;; lsp-calib.el --- Completions with a calibrated probability  -*- lexical-binding: t; -*-

;; Package-Requires: ((emacs "30.1"))
;; Keywords: convenience, languages, tools

;;; Commentary:

;; lsp-calib is a language server that runs beside the usual one.  This file starts it with Eglot or lsp-mode, shows
;; the tier of a suggestion behind it, and has commands for what the server can be asked for.  See docs/editors.md.

;;; Code:

(require 'seq)
(require 'subr-x)

(defvar eglot-server-programs)
(defvar lsp--cur-workspace)
(defvar lsp-inline-completion--current)
(defvar lsp-inline-completion--items)
(defvar lsp-inline-completion--overlay)
(declare-function eglot-current-server "eglot")
(declare-function eglot-path-to-uri "eglot")
(declare-function eglot-server-capable "eglot")
(declare-function jsonrpc-async-request "jsonrpc")
(declare-function lsp--buffer-uri "lsp-mode")
(declare-function lsp--workspace-server-capabilities "lsp-mode")
(declare-function lsp-find-workspace "lsp-mode")
(declare-function lsp-register-client "lsp-mode")
(declare-function lsp-request-async "lsp-mode")
(declare-function lsp-stdio-connection "lsp-mode")
(declare-function make-lsp-client "lsp-mode")

(defgroup lsp-calib nil
  "Completions with a calibrated probability."
  :group 'tools)

(defcustom lsp-calib-command '("lsp-calib" "serve")
  "The command line that starts the server."
  :type '(repeat string))

(defcustom lsp-calib-modes
  '(python-base-mode js-base-mode typescript-ts-base-mode java-mode java-ts-mode go-mode go-ts-mode rust-mode
    rust-ts-mode c-mode c-ts-mode c++-mode c++-ts-mode csharp-mode csharp-ts-mode ruby-base-mode php-mode php-ts-mode)
  "The major modes, and parents of modes, in which lsp-mode starts the server."
  :type '(repeat symbol))

(defface lsp-calib-accept '((t :inherit success)) "The badge of a suggestion that is usually used as it is.")
(defface lsp-calib-review '((t :inherit warning)) "The badge of a suggestion to be read first.")
(defface lsp-calib-reject '((t :inherit error)) "The badge of a suggestion that is rarely used as it is.")

;;; The server, through either client

(defun lsp-calib--workspace ()
  "The server's workspace in lsp-mode, nil if there is none."
  (and (bound-and-true-p lsp-mode) (lsp-find-workspace 'lsp-calib)))

(defun lsp-calib--get (object &rest keys)
  "The value in OBJECT, JSON as Eglot or lsp-mode reads it, under KEYS.
KEYS are keywords, the outermost first."
  (dolist (key keys object)
    (setq object (if (hash-table-p object)
                     (gethash (substring (symbol-name key) 1) object)
                   (plist-get object key)))))

(defun lsp-calib--mark (tier)
  "The mark of TIER, as the server names it."
  (or (if-let* ((workspace (lsp-calib--workspace)))
          (lsp-calib--get (lsp--workspace-server-capabilities workspace)
                          :experimental :lspCalib :badges (intern (concat ":" tier)) :mark)
        (and (fboundp 'eglot-server-capable) (eglot-current-server)
             (plist-get (eglot-server-capable :experimental :lspCalib :badges (intern (concat ":" tier))) :mark)))
      ""))

(defun lsp-calib--badge (tier)
  "What is shown behind a suggestion of TIER."
  (propertize (format "  %s %s" (lsp-calib--mark tier) tier) 'face (intern (concat "lsp-calib-" tier))))

(defun lsp-calib--execute (command argument then)
  "Have the server execute COMMAND with ARGUMENT, a plist or nil.
THEN is called with what it answers."
  (let* ((name (concat "lsp-calib." command))
         (params (list :command name :arguments (if argument (vector argument) [])))
         (workspace (lsp-calib--workspace)))
    (cond
     (workspace
      (let ((lsp--cur-workspace workspace))
        (lsp-request-async "workspace/executeCommand" params then
                           :mode 'detached
                           :error-handler (lambda (fault) (message "%s" (lsp-calib--get fault :message))))))
     ((and (fboundp 'eglot-current-server) (eglot-current-server))
      (jsonrpc-async-request (eglot-current-server) :workspace/executeCommand params
                             :success-fn then
                             :error-fn (lambda (fault) (message "%s" (plist-get fault :message)))
                             ;; A refit or a report takes as long as it takes.
                             :timeout nil))
     (t (user-error "No lsp-calib here: start Eglot or lsp-mode in this buffer")))))

;;; Commands

;;;###autoload
(defun lsp-calib-status ()
  "Show what the server is doing, with which model."
  (interactive)
  (lsp-calib--execute "status" nil
                      (lambda (status)
                        (message "lsp-calib: %s. %s" (lsp-calib--get status :state) (lsp-calib--get status :message)))))

;;;###autoload
(defun lsp-calib-refit ()
  "Refit the calibrator from what you kept and what you changed."
  (interactive)
  (lsp-calib--execute "refit" nil
                      (lambda (done) (message "Refit: %s." (lsp-calib--get done :reason)))))

;;;###autoload
(defun lsp-calib-report ()
  "Show in a browser whether the probabilities came true."
  (interactive)
  (lsp-calib--execute "showReport" nil
                      (lambda (done) (message "The report is %s" (lsp-calib--get done :path)))))

;;;###autoload
(defun lsp-calib-explain ()
  "Say why the last request in this buffer got no suggestion."
  (interactive)
  (lsp-calib--execute "explain" (when-let* ((uri (lsp-calib--uri))) (list :uri uri))
                      (lambda (absence)
                        (message "%s" (or (lsp-calib--get absence :message)
                                          "The last request was answered with a suggestion, or none has been asked for yet.")))))

;;;###autoload
(defun lsp-calib-pause (&optional minutes)
  "No suggestions until `lsp-calib-resume', or for MINUTES.
Interactively, MINUTES is the prefix argument."
  (interactive "P")
  (let ((minutes (and minutes (prefix-numeric-value minutes))))
    (lsp-calib--execute "pause" (and minutes (list :minutes minutes))
                        (lambda (_) (message (if minutes "lsp-calib is paused for %s minutes." "lsp-calib is paused.")
                                             minutes)))))

;;;###autoload
(defun lsp-calib-resume ()
  "End the pause."
  (interactive)
  (lsp-calib--execute "resume" nil (lambda (_) (message "lsp-calib suggests again."))))

(defun lsp-calib--uri ()
  "The URI of this buffer's file as the client has named it to the server.
Nil if it has no file, or no client."
  (cond
   ((not buffer-file-name) nil)
   ((lsp-calib--workspace) (lsp--buffer-uri))
   ;; Eglot names documents by their true names.
   ((fboundp 'eglot-path-to-uri) (eglot-path-to-uri (file-truename buffer-file-name) :truenamep t))))

;;; Eglot

(defun lsp-calib--to-its-end (function &rest arguments)
  "Call FUNCTION with ARGUMENTS; what is typed meanwhile waits.
Completion asks within `while-no-input'.  A key that ends Eglot between fetching
a change and sending it would lose or repeat the change."
  (let ((inhibit-quit t))
    (apply function arguments)))

;;;###autoload
(defun lsp-calib-eglot (modes &rest server)
  "Have Eglot start lsp-calib in MODES, beside SERVER.
SERVER is the command line of the usual server; without it lsp-calib is alone.
Eglot has one server in a buffer: with SERVER it starts rass, the program of
rassumfrassum, which runs both."
  (require 'eglot)
  (advice-add 'eglot--track-changes-fetch :around #'lsp-calib--to-its-end)
  (advice-add 'eglot--signal-textDocument/didChange :around #'lsp-calib--to-its-end)
  (let ((contact (if server `("rass" "--" ,@server "--" ,@lsp-calib-command) lsp-calib-command)))
    (push (cons modes contact) eglot-server-programs)))

(defvar-local lsp-calib--tiers nil
  "The tier of each suggestion among the last completions, an alist by text.")

(defun lsp-calib--remember (capf)
  "Have CAPF note the tiers of what it offers.
CAPF is what `eglot-completion-at-point' has returned."
  (pcase capf
    (`(,start ,end ,table . ,properties)
     (let ((buffer (current-buffer)))
       `(,start ,end
                ,(lambda (pattern predicate action)
                   (let ((found (funcall table pattern predicate action)))
                     (when (eq action t)
                       (with-current-buffer buffer
                         (setq lsp-calib--tiers (delq nil (mapcar #'lsp-calib--tier-of found)))))
                     found))
                ,@properties)))
    (_ capf)))

(defun lsp-calib--tier-of (candidate)
  "A pair of the text of CANDIDATE and its tier; nil if it has no tier.
CANDIDATE is a completion of Eglot's."
  (let ((detail (plist-get (get-text-property 0 'eglot--lsp-item candidate) :detail)))
    (and (stringp detail)
         (string-match (rx bos (group (or "accept" "review" "reject")) " · ") detail)
         (cons (substring-no-properties candidate) (match-string 1 detail)))))

(defvar-local lsp-calib--overlay nil
  "The overlay with the badge of what `completion-preview-mode' shows.")

(defun lsp-calib--preview-badge (&rest _)
  "Show the tier of what `completion-preview-mode' offers, behind it."
  (when (overlayp lsp-calib--overlay)
    (delete-overlay lsp-calib--overlay)
    (setq lsp-calib--overlay nil))
  (when-let* ((preview (and (bound-and-true-p completion-preview-active-mode)
                            (seq-find (lambda (one) (overlay-get one 'completion-preview-suffixes))
                                      (overlays-in (point) (point)))))
              (text (concat (overlay-get preview 'completion-preview-base)
                            (overlay-get preview 'completion-preview-common)
                            (nth (overlay-get preview 'completion-preview-index)
                                 (overlay-get preview 'completion-preview-suffixes))))
              (tier (cdr (assoc text lsp-calib--tiers))))
    (setq lsp-calib--overlay (make-overlay (overlay-end preview) (overlay-end preview)))
    ;; The preview is an `after-string' at the same place; Emacs draws those before all `before-string's.
    (overlay-put lsp-calib--overlay 'before-string (lsp-calib--badge tier))))

;;;###autoload
(define-minor-mode lsp-calib-preview-mode
  "Show completions of Eglot as grey text, with the tier behind a suggestion.
The grey text is that of `completion-preview-mode'."
  :lighter nil
  ;; Eglot runs its hook also when it stops managing a buffer.
  (unless (and (fboundp 'eglot-managed-p) (eglot-managed-p))
    (setq lsp-calib-preview-mode nil))
  (if lsp-calib-preview-mode
      (progn
        (advice-add 'eglot-completion-at-point :filter-return #'lsp-calib--remember)
        (completion-preview-mode)
        (add-hook 'completion-preview-active-mode-hook #'lsp-calib--preview-badge nil t)
        (add-hook 'post-command-hook #'lsp-calib--preview-badge 90 t))
    (completion-preview-mode -1)
    (remove-hook 'completion-preview-active-mode-hook #'lsp-calib--preview-badge t)
    (remove-hook 'post-command-hook #'lsp-calib--preview-badge t)
    (lsp-calib--preview-badge)))

;;; lsp-mode

(defun lsp-calib--inline-badge ()
  "Show the tier behind the suggestion that lsp-mode shows."
  (when-let* ((item (nth lsp-inline-completion--current lsp-inline-completion--items))
              (arguments (lsp-calib--get item :command :arguments))
              (tier (and (length> arguments 0) (lsp-calib--get (elt arguments 0) :tier))))
    (overlay-put lsp-inline-completion--overlay 'after-string
                 (concat (overlay-get lsp-inline-completion--overlay 'after-string) (lsp-calib--badge tier)))))

;;;###autoload (with-eval-after-load 'lsp-mode (require 'lsp-calib))
(with-eval-after-load 'lsp-mode
  (lsp-register-client
   (make-lsp-client :new-connection (lsp-stdio-connection (lambda () lsp-calib-command))
                    :activation-fn (lambda (_file mode) (provided-mode-derived-p mode lsp-calib-modes))
                    :add-on? t
                    :notification-handlers (let ((handlers (make-hash-table :test #'equal)))
                                             ;; `lsp-calib-status' asks for it; without a handler lsp-mode warns.
                                             (puthash "lsp-calib/status" #'ignore handlers)
                                             handlers)
                    :priority -1
                    :server-id 'lsp-calib))
  (add-hook 'lsp-inline-completion-shown-hook #'lsp-calib--inline-badge))

(provide 'lsp-calib)
;;; lsp-calib.el ends here
